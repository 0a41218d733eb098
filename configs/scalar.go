package configs

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// scalar is a value type with a notation of its own.
type scalar interface {
	parse(text string) error
	number() (int64, bool) // for min and max
}

// Size is a number of bytes: a bare number, or one with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB,
// TiB (powers of 1024).
type Size int64

func (s *Size) parse(text string) error {
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, unit := range []struct {
		suffix string
		factor float64
	}{
		{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
		{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1}, {"", 1},
	} {
		digits, found := strings.CutSuffix(lower, unit.suffix)
		if !found {
			continue
		}
		digits = strings.TrimSpace(digits)
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && unit.factor == 1 {
			*s = Size(n)
			return nil
		}
		n, err := strconv.ParseFloat(digits, 64)
		n *= unit.factor
		if err != nil || n != math.Trunc(n) || math.Abs(n) >= math.MaxInt64 {
			break
		}
		*s = Size(n)
		return nil
	}
	return fmt.Errorf("%q is not a size; write bytes, or a number with KiB, MiB, GiB, KB, MB or GB", text)
}

func (s *Size) number() (int64, bool) { return int64(*s), true }

// String writes the largest unit that divides the size.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		factor := Size(1) << (10 * (i + 1))
		if s != 0 && s%factor == 0 {
			return strconv.FormatInt(int64(s/factor), 10) + []string{"KiB", "MiB", "GiB", "TiB"}[i]
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText makes other encodings write the file's notation.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Duration is a time span with units: ms, s, m, h, d, w, and sums of them (1h30m).
type Duration time.Duration

func (d *Duration) parse(text string) error {
	parsed, err := ParseDuration(text)
	if err != nil {
		return err
	}
	*d = Duration(parsed)
	return nil
}

func (d *Duration) number() (int64, bool) { return int64(*d), true }

func (d Duration) String() string { return time.Duration(d).String() }

// Duration is the time span.
func (d Duration) Duration() time.Duration { return time.Duration(d) }

// MarshalText makes other encodings write the file's notation.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDuration is time.ParseDuration with days and weeks: the notation of time spans in the file and on the command line.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	bad := fmt.Errorf("%q is not a time span; write a number with ms, s, m, h, d or w", text)
	rest := text
	var total time.Duration
	counted := false
	for _, unit := range []struct {
		suffix string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		digits, after, found := strings.Cut(rest, unit.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil || math.Abs(n) > float64(math.MaxInt64/unit.length) {
			return 0, bad
		}
		total += time.Duration(n * float64(unit.length))
		rest, counted = after, true
	}
	if rest != "" || !counted {
		tail, err := time.ParseDuration(rest)
		if err != nil {
			return 0, bad
		}
		total += tail
	}
	return total, nil
}

// Millis is a time span by Kafka's .ms names: a bare number is milliseconds, a number with a unit is accepted too.
type Millis int64

func (m *Millis) parse(text string) error {
	if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
		*m = Millis(n)
		return nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a time span; write milliseconds, or a number with s, m, h, d or w", text)
	}
	*m = Millis(d.Milliseconds())
	return nil
}

func (m *Millis) number() (int64, bool) { return int64(*m), true }

// Duration is the time span.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Ratio is a number from 0 to 1.
type Ratio float64

func (r *Ratio) parse(text string) error {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is not a number from 0 to 1; write one, as 0.5", text)
	}
	*r = Ratio(f)
	return nil
}

func (r *Ratio) number() (int64, bool) { return 0, false }

// Address is host:port; empty when the default is empty and nothing was given.
type Address string

func (a *Address) parse(text string) error {
	if text == "" {
		*a = ""
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not an address; write host:port, as 127.0.0.1:9092", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	} else if n == 0 && host == "" {
		return errors.New("neither a host nor a port; write host:port, as 127.0.0.1:9092")
	}
	*a = Address(text)
	return nil
}

func (a *Address) number() (int64, bool) { return 0, false }

// Host and Port split the address; both are empty for the empty address.
func (a Address) Host() string {
	host, _, _ := net.SplitHostPort(string(a))
	return host
}

// Port is the address's port number.
func (a Address) Port() int {
	_, port, _ := net.SplitHostPort(string(a))
	n, _ := strconv.Atoi(port)
	return n
}

// Wildcard tells whether the address stands for all of the host's addresses.
func (a Address) Wildcard() bool {
	if a == "" {
		return false
	}
	host := a.Host()
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}
