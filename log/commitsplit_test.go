package log

import "testing"

// A commit of several transactions that a crash ends between them leaves no commit index without its entries, and no change of members
// without the commit index that came with it.
func TestHardStateOfALargeCommit(t *testing.T) {
	for _, at := range []int{100, MaxCommitEntries - 1, MaxCommitEntries + 100} { // where the change of members is
		s := mustOpen(t, t.TempDir(), Options{})
		p := mustPartition(t, s, 1)
		var entries []Entry
		for i := range MaxCommitEntries + 200 {
			e := Entry{Index: uint64(i + 1), Term: 3, Type: EntryMeta}
			if i+1 == at {
				e.Type, e.Data = EntryMetaV2, []byte("members")
			}
			entries = append(entries, e)
		}
		m := Mutation{Group: 1, Entries: entries, HardState: &HardState{Term: 3, Vote: 1, Commit: uint64(len(entries) - 1)}}
		s.commitMu.Lock()
		c := s.newCommit()
		if err := c.add(&m); err != nil {
			t.Fatal(err)
		}
		c.discard() // the last transaction is lost
		s.commitMu.Unlock()
		h := p.HardState()
		if last := p.LastIndex(); last != MaxCommitEntries || h.Commit > last || h.Term != 3 || last >= uint64(at) && h.Commit < uint64(at-1) {
			t.Errorf("the change at %d: the log ends at %d with %+v", at, last, h)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = mustOpen(t, t.TempDir(), Options{})
		p = mustPartition(t, s, 1)
		if err := s.Commit([]Mutation{m}); err != nil {
			t.Fatal(err)
		}
		if h := p.HardState(); h != *m.HardState {
			t.Errorf("the change at %d: in the end %+v", at, h)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
