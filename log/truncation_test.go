package log

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log/record"
)

// cutModel is a follower's log beside the list of entries that it should be.
type cutModel struct {
	t    *testing.T
	rt   *rapid.T
	dir  string
	s    *Store
	p    *Partition
	twin []Entry // twin[i] has index i+1
	term uint64
	old  map[string]*pb.KV // entries that were stored some time ago
}

// TestCutEntriesStayCut: a log is cut again and again by other leaders, and whatever was cut comes back on the disk.
func TestCutEntriesStayCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &cutModel{t: t, rt: rt, dir: t.TempDir(), term: 1, old: map[string]*pb.KV{}}
		m.open()
		defer func() { m.close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.append, "append2": m.append, "append3": m.append,
			"apply":  m.apply,
			"trim":   m.trim,
			"photo":  func(*rapid.T) { m.photograph() },
			"revive": func(*rapid.T) { m.revive() },
			"restart": func(*rapid.T) {
				m.close()
				m.open()
			},
			"": m.check,
		})
	})
}

func (m *cutModel) open() {
	m.s = mustOpen(m.t, m.dir, Options{})
	m.p = mustPartition(m.t, m.s, 3)
}

func (m *cutModel) close() {
	if err := m.s.Close(); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *cutModel) commit(mu Mutation) {
	mu.Group = 3
	m.p.Follow(mu.Entries)
	if err := m.s.Commit([]Mutation{mu}); err != nil {
		m.rt.Fatal(err)
	}
}

// append adds entries at the end, or in the place of what is not applied. Their terms need not be higher than those they replace.
func (m *cutModel) append(rt *rapid.T) {
	from := rapid.Uint64Range(m.p.AppliedIndex()+1, uint64(len(m.twin))+1).Draw(rt, "from")
	mu := Mutation{}
	if from <= uint64(len(m.twin)) {
		mu.TruncateFrom = from
		m.term++
	}
	kept := m.twin[: from-1 : from-1]
	offset, term := int64(0), uint64(1)
	for _, e := range kept {
		if e.Type == EntryBatch {
			offset++
		}
		term = e.Term
	}
	for i := range rapid.IntRange(1, 4).Draw(rt, "entries") {
		term = rapid.Uint64Range(term, m.term).Draw(rt, "term")
		e := Entry{Index: from + uint64(i), Term: term, Data: batchOf(1500, int64(m.term))}
		record.Stamp(e.Data, offset, int32(term))
		offset++
		mu.Entries = append(mu.Entries, e)
	}
	if mu.TruncateFrom > 0 && mu.Entries[0].Term == m.twin[from-1].Term {
		rt.Skip("one leader writes one entry at an index")
	}
	m.commit(mu)
	m.twin = append(kept, mu.Entries...)
}

func (m *cutModel) apply(rt *rapid.T) {
	applied := m.p.AppliedIndex()
	m.p.Apply(m.twin[applied:rapid.Uint64Range(applied, uint64(len(m.twin))).Draw(rt, "to")])
	if err := m.s.Commit(nil); err != nil {
		rt.Fatal(err)
	}
}

// trim moves the horizon to what is applied.
func (m *cutModel) trim(*rapid.T) {
	if m.p.AppliedIndex() != uint64(len(m.twin)) {
		return
	}
	e := Entry{Index: uint64(len(m.twin)) + 1, Term: m.term, Type: EntryTrim, Data: TrimPayload(m.p.Marks().HighWatermark)}
	m.commit(Mutation{Entries: []Entry{e}})
	m.twin = append(m.twin, e)
	m.p.Apply([]Entry{e})
	if err := m.s.Commit(nil); err != nil {
		m.rt.Fatal(err)
	}
}

// each calls f for what is stored.
func (m *cutModel) each(prefix []byte, f func(*pb.KV)) {
	err := m.s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			v, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			f(&pb.KV{Key: it.Item().KeyCopy(nil), Value: v, Version: it.Item().Version(), Meta: []byte{0}, UserMeta: []byte{0}})
		}
		return nil
	})
	if err != nil {
		m.rt.Fatal(err)
	}
}

func (m *cutModel) photograph() {
	m.each([]byte{spaceLog}, func(kv *pb.KV) { m.old[string(kv.Key)] = kv })
}

// revive makes a database of what is stored and of all that ever was, each with the version that it had: what value-log collection leaves when
// the deletes have been compacted away.
func (m *cutModel) revive() {
	all := map[string]*pb.KV{}
	for k, kv := range m.old {
		all[k] = kv
	}
	m.each(nil, func(kv *pb.KV) { all[string(kv.Key)] = kv })
	m.close()
	list := &pb.KVList{}
	for _, kv := range all {
		list.Kv = append(list.Kv, kv)
	}
	b, err := proto.Marshal(list)
	if err != nil {
		m.rt.Fatal(err)
	}
	dir := m.t.TempDir()
	db, err := badger.Open(badgerOptions(dir, nil))
	if err != nil {
		m.rt.Fatal(err)
	}
	if err := db.Load(bytes.NewReader(append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...)), 16); err != nil {
		m.rt.Fatal(err)
	}
	if err := db.Close(); err != nil {
		m.rt.Fatal(err)
	}
	format, err := os.ReadFile(filepath.Join(m.dir, formatName))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, formatName), format, 0o600)
	}
	if err != nil {
		m.rt.Fatal(err)
	}
	m.dir = dir
	m.open()
}

func (m *cutModel) check(rt *rapid.T) {
	end := uint64(len(m.twin))
	if got := m.p.LastIndex(); got != end {
		rt.Fatalf("last index %d, expected %d", got, end)
	}
	forgetRecent(m.s, m.p)
	for lo := m.p.FirstIndex(); lo <= end; {
		es, err := m.p.Entries(lo, end+1, 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range es {
			if w := &m.twin[lo-1]; es[i].Index != w.Index || es[i].Term != w.Term || !bytes.Equal(es[i].Data, w.Data) {
				rt.Fatalf("entry %d of term %d, expected %d of %d", es[i].Index, es[i].Term, w.Index, w.Term)
			}
			lo++
		}
	}
}
