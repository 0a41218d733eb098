package gtid

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a set as the server prints it: MySQL's gtid_executed, MariaDB's gtid_binlog_pos or gtid_slave_pos.
// White space, upper case and the order of the parts do not matter.
func Parse(f Flavour, text string) (*Set, error) {
	s := New(f)
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		var err error
		if f == MariaDB {
			err = s.parseDomain(part)
		} else {
			err = s.parseSources(part)
		}
		if err != nil {
			return nil, fmt.Errorf("GTID set %s: %w", shown(part), err)
		}
	}
	s.tidy()
	return s, nil
}

func (s *Set) parseDomain(part string) error {
	g, err := parseMariaDB(part)
	if err != nil {
		return err
	}
	if i, ok := s.findDomain(g.Domain); ok {
		return fmt.Errorf("domain %d is named twice, at %d-%d-%d too: a position has one GTID for each domain (gtid_binlog_state is none)",
			g.Domain, g.Domain, s.domains[i].server, s.domains[i].number)
	}
	return s.Add(g)
}

// parseSources reads one UUID with its intervals and tags: uuid:1-3:5:tag:1-7.
func (s *Set) parseSources(part string) error {
	head, rest, _ := strings.Cut(part, ":")
	uuid, err := parseUUID(strings.TrimSpace(head))
	if err != nil {
		return err
	}
	tag, at, wanting := "", -1, true
	for item := range strings.SplitSeq(rest, ":") {
		item = strings.TrimSpace(item)
		if item == "" || item[0] < '0' || item[0] > '9' {
			if wanting && tag != "" {
				return fmt.Errorf("tag %s has no numbers", tag)
			}
			if tag = strings.ToLower(item); !validTag(tag) {
				return fmt.Errorf("%s is neither a number nor a tag", shown(item))
			}
			at, wanting = -1, true
			continue
		}
		v, err := parseInterval(item)
		if err != nil {
			return err
		}
		if at < 0 {
			if at, err = s.source(uuid, tag); err != nil {
				return err
			}
		}
		if err := s.grow(1); err != nil {
			return err
		}
		// tidy sorts once at the end: inserting one by one would let hostile order cost its square.
		s.sources[at].intervals = append(s.sources[at].intervals, v)
		wanting = false
	}
	if wanting {
		return errors.New("it ends without numbers")
	}
	return nil
}

func parseInterval(item string) (interval, error) {
	a, b, both := strings.Cut(item, "-")
	first, err := parseNumber(strings.TrimSpace(a), maxNumber)
	if err != nil {
		return interval{}, err
	}
	last := first
	if both {
		if last, err = parseNumber(strings.TrimSpace(b), maxNumber); err != nil {
			return interval{}, err
		}
	}
	if first == 0 || last < first {
		return interval{}, fmt.Errorf("%s is not an interval of numbers from 1", shown(item))
	}
	return interval{first, last}, nil
}

// tidy joins the intervals that were appended as they came.
func (s *Set) tidy() {
	s.count = 0
	for i := range s.sources {
		src := &s.sources[i]
		src.intervals = slices.Clip(normalise(src.intervals))
		s.count += len(src.intervals)
	}
}

// String is the set as the server prints it.
func (s *Set) String() string { return string(s.AppendText(nil)) }

// AppendText appends the set as the server prints it.
func (s *Set) AppendText(dst []byte) []byte {
	for i, d := range s.domains {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(d.id), 10)
		dst = strconv.AppendUint(append(dst, '-'), uint64(d.server), 10)
		dst = strconv.AppendUint(append(dst, '-'), d.number, 10)
	}
	for i, src := range s.sources {
		if i == 0 || s.sources[i-1].uuid != src.uuid {
			if i > 0 {
				dst = append(dst, ",\n"...)
			}
			dst = appendUUID(dst, src.uuid)
		}
		if src.tag != "" {
			dst = append(append(dst, ':'), src.tag...)
		}
		for _, v := range src.intervals {
			dst = strconv.AppendUint(append(dst, ':'), v.first, 10)
			if v.last != v.first {
				dst = strconv.AppendUint(append(dst, '-'), v.last, 10)
			}
		}
	}
	return dst
}
