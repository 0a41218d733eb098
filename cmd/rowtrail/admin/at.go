package admin

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/snapshot"
)

// ParseAt reads a point in a topic: "" or now, an offset (1234), a source position (0/16B3748), a time (RFC 3339, or
// without zone in UTC), or a span before now (-5m).
func ParseAt(text string, now time.Time) (snapshot.At, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "now" {
		return snapshot.At{Now: true}, nil
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return snapshot.At{Offset: &offset}, nil
	}
	if lsn, ok := ParseLSN(text); ok {
		return snapshot.At{Position: &lsn}, nil
	}
	if at, ok := ParseTime(text, now); ok {
		return snapshot.At{Time: &at}, nil
	}
	return snapshot.At{}, fmt.Errorf("%q is no point in a topic; write an offset (1234), a time (2026-01-31T12:00:00Z), a span before now (-5m, -7d) or a position (0/16B3748, a GTID, mysql-bin.000003:1234)", text)
}

// clockSkew is how far a source's clock may be ahead.
const clockSkew = time.Minute

// reached refuses a point that the log has not come to: what it shows there could still change.
func (s *Server) reached(ctx context.Context, t Topic, at snapshot.At, now time.Time) error {
	switch {
	case at.Offset != nil:
		if *at.Offset < endOf(t) {
			return nil
		}
		all, missing, ok := s.oneTopic(ctx, t.Name) // as the leaders of its partitions have it
		if !ok || len(missing) > 0 {
			return nil // whoever answers for them knows
		}
		if end := endOf(all); *at.Offset >= end {
			return fmt.Errorf("offset %d is beyond the end of %s, which is %d; leave the point out to ask for now", *at.Offset, t.Name, end)
		}
	case at.Time != nil && at.Time.After(now.Add(clockSkew)):
		return fmt.Errorf("%s has not come yet; leave the point out to ask for now", at.Time.UTC().Format(time.RFC3339Nano))
	case at.Position != nil:
		for _, c := range s.opts.Node.Connectors() {
			have, ok := ParseLSN(c.Position)
			if ok && strings.HasPrefix(t.Name, topicsOf(c)) && *at.Position > have && !c.Here && s.opts.Position != nil {
				// What is known of another node's connector is older than what it has written.
				if c.Position, ok = s.opts.Position(ctx, c.Node, c.Name); ok {
					have, ok = ParseLSN(c.Position)
				}
			}
			if ok && strings.HasPrefix(t.Name, topicsOf(c)) && *at.Position > have {
				return fmt.Errorf("position %s is beyond %s, up to which connector %s has written; leave the point out to ask for now",
					FormatLSN(*at.Position), c.Position, c.Name)
			}
		}
	}
	return nil
}

// endOf is where the longest partition ends.
func endOf(t Topic) (end int64) {
	for _, p := range t.Partitions {
		end = max(end, p.End, p.HighWatermark)
	}
	return end
}

// ParseTime reads a time or a span before now.
func ParseTime(text string, now time.Time) (time.Time, bool) {
	if span, found := strings.CutPrefix(text, "-"); found {
		d, err := configs.ParseDuration(span)
		return now.Add(-d), err == nil && d >= 0
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// ParseLSN reads Postgres's notation of a log position.
func ParseLSN(text string) (uint64, bool) {
	high, low, found := strings.Cut(text, "/")
	if !found {
		return 0, false
	}
	h, errHigh := strconv.ParseUint(high, 16, 32)
	l, errLow := strconv.ParseUint(low, 16, 32)
	return h<<32 | l, errHigh == nil && errLow == nil
}

// FormatLSN writes Postgres's notation of a log position.
func FormatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, lsn&math.MaxUint32) }
