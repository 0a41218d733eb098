package gtid

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Flavour is the kind of server that a GTID comes from.
type Flavour uint8

// The two flavours.
const (
	MySQL Flavour = iota
	MariaDB
)

// String is the flavour's name.
func (f Flavour) String() string {
	if f == MariaDB {
		return "MariaDB"
	}
	return "MySQL"
}

const (
	// MaxSources bounds the UUIDs with their tags, or the domains, of one set.
	MaxSources = 1 << 13
	// MaxIntervals bounds the intervals of one set over all of its UUIDs.
	MaxIntervals = 1 << 17

	maxTag = 32
	// maxNumber is the largest number that MySQL gives out.
	maxNumber = math.MaxInt64 - 1
)

// ErrTooLarge is what is wrong with a set of more than MaxSources sources or MaxIntervals intervals.
var ErrTooLarge = errors.New("the GTID set is too large")

// GTID names one transaction: by UUID, Tag and Number on MySQL, by Domain, Server and Number on MariaDB.
type GTID struct {
	Flavour Flavour
	UUID    [16]byte
	Tag     string // lower case; empty without
	Domain  uint32
	Server  uint32
	Number  uint64
}

// String is the GTID as its server prints it.
func (g GTID) String() string {
	if g.Flavour == MariaDB {
		return fmt.Sprintf("%d-%d-%d", g.Domain, g.Server, g.Number)
	}
	b := appendUUID(nil, g.UUID)
	if g.Tag != "" {
		b = append(append(b, ':'), g.Tag...)
	}
	return string(strconv.AppendUint(append(b, ':'), g.Number, 10))
}

// ParseGTID reads one GTID.
func ParseGTID(f Flavour, text string) (GTID, error) {
	if f == MariaDB {
		g, err := parseMariaDB(strings.TrimSpace(text))
		if err != nil {
			return GTID{}, fmt.Errorf("GTID %s: %w", shown(text), err)
		}
		return g, nil
	}
	s, err := Parse(MySQL, text)
	if err != nil {
		return GTID{}, err
	}
	if len(s.sources) != 1 || len(s.sources[0].intervals) != 1 || s.sources[0].intervals[0].first != s.sources[0].intervals[0].last {
		return GTID{}, fmt.Errorf("GTID %s: it must name one transaction, as uuid:number or uuid:tag:number", shown(text))
	}
	o := s.sources[0]
	return GTID{UUID: o.uuid, Tag: o.tag, Number: o.intervals[0].first}, nil
}

func appendUUID(dst []byte, u [16]byte) []byte {
	for i, n := range [...]int{4, 6, 8, 10, 16} {
		start := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, u[start:n])
	}
	return dst
}

func parseUUID(s string) (u [16]byte, err error) {
	digits := s
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		digits = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	}
	if len(digits) != 32 {
		return u, fmt.Errorf("%s is no UUID", shown(s))
	}
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return u, fmt.Errorf("%s is no UUID", shown(s))
	}
	return u, nil
}

func parseMariaDB(s string) (GTID, error) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return GTID{}, errors.New("a MariaDB GTID is domain-server-number")
	}
	domain, err := parseNumber(parts[0], math.MaxUint32)
	if err != nil {
		return GTID{}, fmt.Errorf("domain %w", err)
	}
	server, err := parseNumber(parts[1], math.MaxUint32)
	if err != nil {
		return GTID{}, fmt.Errorf("server %w", err)
	}
	number, err := parseNumber(parts[2], math.MaxUint64)
	if err != nil {
		return GTID{}, fmt.Errorf("number %w", err)
	}
	return GTID{Flavour: MariaDB, Domain: uint32(domain), Server: uint32(server), Number: number}, nil
}

// parseNumber takes digits alone: strconv would take a sign.
func parseNumber(s string, most uint64) (uint64, error) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, fmt.Errorf("%s is not a number", shown(s))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%s is not a number up to %d", shown(s), most)
	}
	return n, nil
}

func validTag(s string) bool {
	if s == "" || len(s) > maxTag || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// shown is a quoted text, cut so that an error stays one line.
func shown(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
