package log

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/keyindex"
	"github.com/rowtrail/rowtrail/log/record"
)

// BenchmarkJudge measures what a round takes for a record, by what has to be asked: of the records of a clean run one key in ten was
// written again, and the tail writes these in turn. The two ways take turns in each iteration, so that both see the same machine.
func BenchmarkJudge(b *testing.B) {
	const keys, perBatch, again, versions = 200_000, 500, 10, 4
	x, err := keyindex.Open(b.TempDir(), keyindex.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = x.Close() }()
	fold := x.NewFold(1)
	sketch := keyindex.NewSketch(keys, keys/again*versions)
	var batches [][]byte
	offset := int64(0)
	write := func(key func(i int) int, n int) {
		for from := 0; from < n; from += perBatch {
			var bld record.Builder
			base := offset
			for i := range perBatch {
				k := fmt.Appendf(nil, "customer-%08d", key(from+i))
				bld.Append(1, k, noise[i:i+60])
				if err := fold.Put(k, offset); err != nil {
					b.Fatal(err)
				}
				if offset >= keys {
					sketch.Put(k, offset)
				}
				offset++
			}
			batch := bld.Build(nil)
			record.Stamp(batch, base, 1)
			batches = append(batches, batch)
		}
	}
	write(func(i int) int { return i * 7919 % keys }, keys)
	for range versions {
		write(func(i int) int { return i * 7919 % (keys / again) * again }, keys/again)
	}
	if err := fold.Commit(offset); err != nil {
		b.Fatal(err)
	}
	runs := keys / perBatch
	for _, part := range []struct {
		name    string
		batches [][]byte
	}{{"run", batches[:runs]}, {"tail", batches[runs:]}} {
		b.Run(part.name, func(b *testing.B) {
			var took [2]time.Duration
			var asked, left [2]int64
			for b.Loop() {
				for way, later := range []*keyindex.Sketch{nil, sketch} {
					v := newSurvivors(nil)
					v.end, v.later = offset-1, later
					v.latest = func(key []byte) (int64, bool, error) {
						asked[way]++
						return x.Latest(1, key)
					}
					start := time.Now()
					for _, batch := range part.batches {
						if _, err := v.judge(batch, 0); err != nil {
							b.Fatal(err)
						}
					}
					took[way] += time.Since(start)
					left[way] += v.records
				}
			}
			if left[0] != left[1] {
				b.Fatalf("%d and %d records went", left[0], left[1])
			}
			n := float64(b.N * len(part.batches) * perBatch)
			for way, name := range []string{"index", "sketch"} {
				b.ReportMetric(float64(took[way])/n, name+"-ns/record")
				b.ReportMetric(float64(asked[way])/n, name+"-asked/record")
			}
		})
	}
}
