package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/itest/nodes"
	"github.com/rowtrail/rowtrail/log"
)

// replica is one replica's log as its node's disk has it.
type replica struct {
	where string
	part  *log.Partition
}

// disks compares what the nodes have on their disks; their processes have ended. Of every group all replicas must have the same
// entries, from where each of them is compacted up to where it knows them committed, and up to its end where no other one's
// is behind it.
func disks(members []*nodes.Member) (wrong []string, compared int, err error) {
	groups := map[log.GroupID][]replica{}
	for _, m := range members {
		store, err := log.Open(filepath.Join(m.Data(), "log"), log.Options{Configuration: cluster.Configuration, MinFreeBytes: 1})
		if err != nil {
			return nil, 0, fmt.Errorf("open the log of %s: %w", m, err)
		}
		defer store.Close()
		for _, id := range store.Groups() {
			part, err := store.Partition(id)
			if err != nil {
				return nil, 0, fmt.Errorf("open group %d of %s: %w", id, m, err)
			}
			group := id & (1<<48 - 1) // the rest is the replica's generation
			groups[group] = append(groups[group], replica{fmt.Sprintf("%s (generation %d)", m, id>>48), part})
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		replicas := groups[group]
		// The one that knows most is what the others are compared with.
		slices.SortStableFunc(replicas, func(a, b replica) int {
			if a.end() != b.end() {
				return int(b.end() - a.end())
			}
			return int(a.part.FirstIndex()) - int(b.part.FirstIndex())
		})
		for _, r := range replicas[1:] {
			n, err := same(replicas[0], r)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("group %d: %v", group, err))
			}
			compared += n
		}
	}
	return wrong, compared, nil
}

func (r replica) end() int64 { return int64(r.part.LastIndex()) } //nolint:gosec // an index

// entriesAtOnce bounds what is read at a time.
const entriesAtOnce = 4 << 20

// same compares two replicas' entries.
func same(a, b replica) (int, error) {
	last := b.part.HardState().Commit
	if a.end() == b.end() {
		last = b.part.LastIndex()
	}
	n := 0
	for at := max(a.part.FirstIndex(), b.part.FirstIndex()); at <= last; {
		x, err := a.part.Entries(at, last+1, entriesAtOnce)
		y, err2 := b.part.Entries(at, last+1, entriesAtOnce)
		if err := errors.Join(err, err2); err != nil || len(x) == 0 || len(y) == 0 {
			return n, fmt.Errorf("entries %d to %d of %s or of %s cannot be read: %w", at, last, a.where, b.where, err)
		}
		for i := range min(len(x), len(y)) {
			if x[i].Term != y[i].Term || x[i].Type != y[i].Type || !bytes.Equal(x[i].Data, y[i].Data) {
				return n, fmt.Errorf("entry %d of term %d and %d bytes at %s is of term %d and %d bytes at %s", x[i].Index, x[i].Term, len(x[i].Data), a.where,
					y[i].Term, len(y[i].Data), b.where)
			}
			n++
			at = x[i].Index + 1
		}
	}
	return n, nil
}
