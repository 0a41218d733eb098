package gtid

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Set is a set of GTIDs of one flavour. The zero value is MySQL's empty set; New makes one of either flavour.
// It is not safe for concurrent use.
type Set struct {
	flavour Flavour
	sources []source // MySQL: ascending by UUID and tag, none without intervals
	domains []domain // MariaDB: ascending
	count   int      // intervals of all sources
}

type source struct {
	uuid      [16]byte
	tag       string
	intervals []interval // ascending; neither overlapping nor adjacent
}

type interval struct{ first, last uint64 }

type domain struct {
	id, server uint32
	number     uint64
	loose      bool
}

// New is an empty set.
func New(f Flavour) *Set { return &Set{flavour: f} }

// Flavour is the kind of server that the set's GTIDs come from.
func (s *Set) Flavour() Flavour { return s.flavour }

// IsEmpty says whether the set holds no GTID.
func (s *Set) IsEmpty() bool { return len(s.sources) == 0 && len(s.domains) == 0 }

// Clone is an independent copy.
func (s *Set) Clone() *Set {
	c := &Set{flavour: s.flavour, count: s.count, sources: slices.Clone(s.sources), domains: slices.Clone(s.domains)}
	for i := range c.sources {
		c.sources[i].intervals = slices.Clone(c.sources[i].intervals)
	}
	return c
}

// Equal says whether both hold the same GTIDs; of MariaDB, whether every domain stands at the same server and number.
func (s *Set) Equal(o *Set) bool {
	return s.flavour == o.flavour && slices.EqualFunc(s.sources, o.sources, func(a, b source) bool {
		return a.uuid == b.uuid && a.tag == b.tag && slices.Equal(a.intervals, b.intervals)
	}) && slices.Equal(s.domains, o.domains)
}

// Add puts one GTID into the set. A MariaDB domain moves to it, whatever its number; a number that does not rise makes the
// domain loose.
func (s *Set) Add(g GTID) error {
	if g.Flavour != s.flavour {
		return fmt.Errorf("GTID %s is of %s, the set is of %s", g, g.Flavour, s.flavour)
	}
	if s.flavour == MariaDB {
		d, err := s.domain(g.Domain)
		if err != nil {
			return err
		}
		again := d.number == g.Number && d.server == g.Server
		d.loose = d.loose || g.Number <= d.number && d.number != 0 && !again
		d.server, d.number = g.Server, g.Number
		return nil
	}
	if g.Number == 0 || g.Number > maxNumber {
		return fmt.Errorf("GTID %s: numbers go from 1 to %d", g, uint64(maxNumber))
	}
	if g.Tag != "" && !validTag(g.Tag) {
		return fmt.Errorf("GTID %s: a tag is up to %d of a-z, 0-9 and _, and does not start with a digit", g, maxTag)
	}
	return s.addRange(g.UUID, g.Tag, interval{g.Number, g.Number})
}

// Contains says whether the GTID is known to be in the set.
func (s *Set) Contains(g GTID) bool {
	if g.Flavour != s.flavour {
		return false
	}
	if s.flavour == MariaDB {
		i, ok := s.findDomain(g.Domain)
		return ok && s.domains[i].reaches(domain{id: g.Domain, server: g.Server, number: g.Number})
	}
	i, ok := s.find(g.UUID, g.Tag)
	if !ok {
		return false
	}
	in := s.sources[i].intervals
	j, _ := slices.BinarySearchFunc(in, g.Number, func(v interval, n uint64) int { return cmp.Compare(v.last, n) })
	return j < len(in) && in[j].first <= g.Number
}

// ContainsSet says whether every GTID of o is in the set.
func (s *Set) ContainsSet(o *Set) bool {
	left := o.Clone()
	if err := left.Subtract(s); err != nil {
		return false
	}
	return left.IsEmpty()
}

// Union puts every GTID of o into the set: of a MariaDB domain that both have, the higher number stays.
func (s *Set) Union(o *Set) error {
	if s.flavour != o.flavour {
		return fmt.Errorf("a set of %s and one of %s have no union", s.flavour, o.flavour)
	}
	for _, od := range o.domains {
		d, err := s.domain(od.id)
		if err != nil {
			return err
		}
		loose := d.loose || od.loose
		if !d.reaches(od) && d.number <= od.number {
			*d = od
		}
		d.loose = loose
	}
	for _, src := range o.sources {
		var mine []interval
		if i, ok := s.find(src.uuid, src.tag); ok {
			mine = s.sources[i].intervals
		}
		merged := normalise(append(slices.Clone(mine), src.intervals...))
		if s.count+len(merged)-len(mine) > MaxIntervals {
			return tooMany()
		}
		i, err := s.source(src.uuid, src.tag)
		if err != nil {
			return err
		}
		s.sources[i].intervals = merged
		s.count += len(merged) - len(mine)
	}
	return nil
}

// Subtract takes every GTID of o out of the set. Of MariaDB, a domain goes if o's position of it has reached the set's.
func (s *Set) Subtract(o *Set) error {
	if s.flavour != o.flavour {
		return fmt.Errorf("a set of %s cannot be taken from one of %s", o.flavour, s.flavour)
	}
	s.domains = slices.DeleteFunc(s.domains, func(d domain) bool {
		i, ok := o.findDomain(d.id)
		return ok && o.domains[i].reaches(d)
	})
	kept, count := make([]source, 0, len(s.sources)), 0
	for _, src := range s.sources {
		if i, ok := o.find(src.uuid, src.tag); ok {
			src.intervals = without(src.intervals, o.sources[i].intervals)
		}
		if count += len(src.intervals); count > MaxIntervals {
			return tooMany()
		}
		if len(src.intervals) > 0 {
			kept = append(kept, src)
		}
	}
	s.sources, s.count = kept, count
	return nil
}

// MarkLoose says that a MariaDB domain's numbers are known not to only rise, as after a read of a stored position.
func (s *Set) MarkLoose(id uint32) {
	if i, ok := s.findDomain(id); ok {
		s.domains[i].loose = true
	}
}

// Loose lists the MariaDB domains whose numbers were seen to fall: the text of a set does not carry it.
func (s *Set) Loose() []uint32 {
	var ids []uint32
	for _, d := range s.domains {
		if d.loose {
			ids = append(ids, d.id)
		}
	}
	return ids
}

// reaches says whether a domain at position d has had o.
func (d domain) reaches(o domain) bool {
	if d.loose {
		return d.server == o.server && d.number == o.number
	}
	// The same number of two servers is two transactions: strict mode refuses the second.
	return o.number < d.number || o.number == d.number && o.server == d.server
}

func (s *Set) findDomain(id uint32) (int, bool) {
	return slices.BinarySearchFunc(s.domains, id, func(d domain, id uint32) int { return cmp.Compare(d.id, id) })
}

// domain is the domain of the set, at 0-0 if it is new.
func (s *Set) domain(id uint32) (*domain, error) {
	i, ok := s.findDomain(id)
	if !ok {
		if len(s.domains) == MaxSources {
			return nil, fmt.Errorf("%w: it has %d domains", ErrTooLarge, MaxSources)
		}
		s.domains = slices.Insert(s.domains, i, domain{id: id})
	}
	return &s.domains[i], nil
}

func compareSource(s source, o source) int {
	if c := bytes.Compare(s.uuid[:], o.uuid[:]); c != 0 {
		return c
	}
	return strings.Compare(s.tag, o.tag)
}

func (s *Set) find(uuid [16]byte, tag string) (int, bool) {
	return slices.BinarySearchFunc(s.sources, source{uuid: uuid, tag: tag}, compareSource)
}

// source is the index of a source, which is made, without intervals, if it is new. The caller gives it an interval.
func (s *Set) source(uuid [16]byte, tag string) (int, error) {
	i, ok := s.find(uuid, tag)
	if !ok {
		if len(s.sources) == MaxSources {
			return 0, fmt.Errorf("%w: it has %d UUIDs and tags", ErrTooLarge, MaxSources)
		}
		if s.count == MaxIntervals {
			return 0, tooMany()
		}
		s.sources = slices.Insert(s.sources, i, source{uuid: uuid, tag: tag})
	}
	return i, nil
}

func (s *Set) grow(by int) error {
	if s.count+by > MaxIntervals {
		return tooMany()
	}
	s.count += by
	return nil
}

func tooMany() error {
	return fmt.Errorf("%w: it has more than %d intervals; purge old binlogs or close the holes in it", ErrTooLarge, MaxIntervals)
}

func (s *Set) addRange(uuid [16]byte, tag string, v interval) error {
	i, err := s.source(uuid, tag)
	if err != nil {
		return err
	}
	src := &s.sources[i]
	in := src.intervals
	if n := len(in); n > 0 && in[n-1].last+1 == v.first {
		in[n-1].last = v.last
		return nil
	}
	// from is the first interval that v touches, to the first after it that v does not.
	from, _ := slices.BinarySearchFunc(in, v.first, func(a interval, n uint64) int { return cmp.Compare(a.last+1, n) })
	to := from
	for to < len(in) && in[to].first <= v.last+1 {
		v.first, v.last = min(v.first, in[to].first), max(v.last, in[to].last)
		to++
	}
	if err := s.grow(1 - (to - from)); err != nil {
		return err
	}
	src.intervals = slices.Replace(in, from, to, v)
	return nil
}

// normalise sorts intervals and joins those that touch, in place.
func normalise(in []interval) []interval {
	slices.SortFunc(in, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	out := in[:0]
	for _, v := range in {
		if n := len(out); n > 0 && v.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, v.last)
			continue
		}
		out = append(out, v)
	}
	return out
}

// without is a less b.
func without(a, b []interval) []interval {
	var out []interval
	j := 0
	for _, v := range a {
		for j < len(b) && b[j].last < v.first {
			j++
		}
		for k := j; k < len(b) && b[k].first <= v.last; k++ {
			if b[k].first > v.first {
				out = append(out, interval{v.first, b[k].first - 1})
			}
			v.first = b[k].last + 1
		}
		if v.first <= v.last {
			out = append(out, v)
		}
	}
	return out
}
