package log

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// BenchmarkCommit measures one Commit of 64 groups with one batch each, Stage and Apply included.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{300, 16 << 10} {
		b.Run(fmt.Sprintf("groups=64/batch=%d", size), func(b *testing.B) {
			s := mustOpen(b, b.TempDir(), Options{})
			defer s.Close()
			var ps []*Partition
			for id := range GroupID(64) {
				ps = append(ps, mustPartition(b, s, id+1))
				ps[id].SetConfig(Config{RetentionBytes: 4 << 20})
			}
			template := batchOf(size, 1)
			ms := make([]Mutation, len(ps))
			b.SetBytes(int64(64 * len(template)))
			b.ReportAllocs()
			for b.Loop() {
				for i, p := range ps {
					batch := append([]byte(nil), template...)
					if _, err := p.Stage(1, batch, time.Time{}); err != nil {
						b.Fatal(err)
					}
					ms[i] = Mutation{Group: p.id, Entries: []Entry{{Index: p.LastIndex() + 1, Term: 1, Data: batch}}}
				}
				if err := s.Commit(ms); err != nil {
					b.Fatal(err)
				}
				for i, p := range ps {
					p.Apply(ms[i].Entries)
					retain(b, s, p, time.Time{})
				}
			}
			st := s.Stats()
			b.ReportMetric(float64(st.Syncs)/float64(b.N), "syncs/op")
		})
	}
}

// BenchmarkStageApply measures the leader's work per batch besides the disk.
func BenchmarkStageApply(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(b, s, 1)
	var bld record.Builder
	bld.Append(1, nil, make([]byte, 1000))
	batch := bld.Build(&record.Producer{ID: 1, Transactional: true})
	seq := int32(0)
	es := make([]Entry, 1)
	b.ReportAllocs()
	for b.Loop() {
		batch[53], batch[54], batch[55], batch[56] = byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq)
		seq++
		if _, err := p.Stage(1, batch, time.Time{}); err != nil {
			b.Fatal(err)
		}
		es[0] = Entry{Index: p.AppliedIndex() + 1, Term: 1, Data: batch}
		p.Apply(es)
	}
}

// BenchmarkRead measures 1 MiB from memory, sequentially from the database, and from random places in it.
func BenchmarkRead(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(b, s, 1)
	const batches, perCommit = 8192, 64
	for range batches / perCommit {
		all := make([][]byte, perCommit)
		for i := range all {
			all[i] = batchOf(16<<10, 1)
		}
		appendAll(b, s, p, all...)
	}
	for _, c := range []struct {
		name string
		from func(i int) int64
	}{
		{"tail", func(int) int64 { return batches - 64 }},
		{"sequential", func(i int) int64 { return int64(i * 63 % (batches / 2)) }},
		{"random", func(i int) int64 { return int64(i * 7919 % (batches / 2)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(1 << 20)
			for i := 0; b.Loop(); i++ {
				if _, err := p.Read(c.from(i), 1<<20, true, ReadCommitted); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
