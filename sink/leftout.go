package sink

import (
	"slices"
	"strings"
)

// leftOut are the offsets of data topics that the target has and the sink reads no more. They are marked to be behind, in the first
// commit that goes on without them: read again one day, such a topic has missed transactions that the others have not.
func leftOut(pl plan, s *starts) (out []Offset) {
	for p, o := range s.stored {
		if _, kind := pl.place(p.topic); kind != placeUnknown || o.Behind {
			continue
		}
		prefix := ""
		for _, candidate := range pl.prefixes {
			if strings.HasPrefix(p.topic, candidate+".") && len(candidate) > len(prefix) {
				prefix = candidate
			}
		}
		if goal := s.goal(prefix); prefix != "" && goal > 0 {
			o.Behind, o.Position = true, goal // up to there it has all of its events
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b Offset) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	return out
}
