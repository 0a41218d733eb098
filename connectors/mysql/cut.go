package mysql

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// Cut is a place in a source's history as a person writes it: the GTID of a transaction, a set of GTIDs, or a file of the binlog with an
// offset. It parts source transactions into those up to it and those after it.
type Cut struct {
	one *gtid.GTID
	set *gtid.Set
	at  place // of file and offset
}

// filePlace is mysql-bin.000003:1234.
var filePlace = regexp.MustCompile(`^([^\s/:,=]+\.\d{6,}):(\d+)$`)

// ParseCut reads a place; ok is false for a text of another form.
func ParseCut(text string) (c *Cut, ok bool) {
	text = strings.TrimSpace(text)
	if m := filePlace.FindStringSubmatch(text); m != nil {
		pos, err := strconv.ParseUint(m[2], 10, 64)
		return &Cut{at: place{m[1], pos}}, err == nil
	}
	for _, f := range []gtid.Flavour{gtid.MySQL, gtid.MariaDB} {
		if g, err := gtid.ParseGTID(f, text); err == nil {
			return &Cut{one: &g}, true
		}
		if s, err := gtid.Parse(f, text); err == nil && !s.IsEmpty() {
			return &Cut{set: s}, true
		}
	}
	return nil, false
}

// ID is the cut as the transaction topic has it, "" where it is no single transaction.
func (c *Cut) ID() string {
	if c.one == nil {
		return ""
	}
	return c.one.String()
}

// Before tells whether a source transaction, by its id in the transaction topic, is up to the cut. Known is false where that cannot be told:
// of a transaction of another server or domain than a single GTID's, and of an id of another form.
func (c *Cut) Before(id string) (before, known bool) {
	if file, pos, found := strings.Cut(strings.TrimPrefix(id, "file="), ",pos="); found {
		n, err := strconv.ParseUint(pos, 10, 64)
		return !c.at.before(place{file, n}), err == nil && c.at.file != ""
	}
	if c.at.file != "" {
		return false, false
	}
	flavour := gtid.MySQL
	if c.one != nil && c.one.Flavour == gtid.MariaDB || c.set != nil && c.set.Flavour() == gtid.MariaDB {
		flavour = gtid.MariaDB
	}
	g, err := gtid.ParseGTID(flavour, id)
	switch {
	case err != nil:
		return false, false
	case c.set != nil:
		return c.set.Contains(g), true
	case g.UUID != c.one.UUID || g.Tag != c.one.Tag || g.Domain != c.one.Domain:
		return false, false
	}
	return g.Number <= c.one.Number, true
}

// Reached tells whether a connector's position is at the cut or after it. Known is false where the position is of another form.
func (c *Cut) Reached(position string) (reached, known bool) {
	have, ok := ParseCut(position)
	switch {
	case !ok:
		return false, false
	case c.at.file != "" || have.at.file != "":
		return !have.at.before(c.at), c.at.file != "" && have.at.file != ""
	}
	set, want := have.asSet(), c.asSet()
	if set == nil || want == nil || set.Flavour() != want.Flavour() {
		return false, false
	}
	return set.ContainsSet(want), true
}

// asSet is a GTID as the set of itself.
func (c *Cut) asSet() *gtid.Set {
	if c.one == nil {
		return c.set
	}
	s := gtid.New(c.one.Flavour)
	if s.Add(*c.one) != nil {
		return nil
	}
	return s
}
