package cluster

import "github.com/rowtrail/rowtrail/log"

// vouch is how a leader makes sure that its members' last change outlives a kill of all of them, before those that left are deleted: an entry
// that it makes once it knows the change to be committed is committed, too. It tells its followers both at once, and they write both down
// together. So whoever can be elected afterwards knows that the change is over, and asks nobody who has left.
type vouch struct {
	needed bool
	index  uint64 // of such an entry; 0: none was made yet
}

// vouched reports that the members need not be told, or have been.
func (g *group) vouched() bool {
	v := &g.vouch
	if !v.needed || g.altered > g.applied {
		return !v.needed
	}
	if v.index == 0 {
		v.index = g.appended + 1 // whatever comes now is sent by a leader that knows
	}
	if g.appended < v.index {
		if err := g.rn.Propose(nil); err != nil {
			g.logger.Debug("an entry that ends a change of members is put off", "group", uint64(g.id), "error", err)
		}
	}
	v.needed = g.applied < v.index
	return !v.needed
}

// changePage bounds what is read at once to find the changes that are not applied.
const changePage = 1 << 20

// lastChange is the last change of the members behind the applied entries; 0: there is none.
func lastChange(store EntryStore, applied uint64) (last uint64, err error) {
	for next, end := applied+1, store.LastIndex()+1; next < end; {
		entries, err := store.Entries(next, end, changePage)
		if err != nil || len(entries) == 0 {
			return last, err
		}
		for i := range entries {
			if t := entries[i].Type; t != log.EntryBatch && t != log.EntryTrim && len(entries[i].Data) > 0 {
				last = entries[i].Index
			}
		}
		next += uint64(len(entries))
	}
	return last, nil
}
