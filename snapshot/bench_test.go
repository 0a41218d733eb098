package snapshot

import (
	"strconv"
	"testing"
)

func benchSource(batches, perBatch, keys int) *memSource {
	src := newMemSource()
	value := make([]byte, 300)
	n := 0
	for b := range batches {
		var records []testRecord
		for range perBatch {
			n++
			records = append(records, testRecord{key: []byte(`{"id":` + strconv.Itoa(n*7919%keys) + `}`), value: value, ts: int64(n),
				place: &testPlace{commit: uint64(b), time: int64(b)}})
		}
		src.append(0, records...)
	}
	return src
}

func BenchmarkFold(b *testing.B) {
	const batches, perBatch = 200, 500
	src := benchSource(batches, perBatch, 50_000)
	v := openViews(b, b.TempDir())
	v.Follow(testTopic, []Source{src})
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Rebuild(b.Context(), testTopic); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batches*perBatch)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkLatest(b *testing.B) {
	v := openViews(b, b.TempDir())
	v.Follow(testTopic, []Source{benchSource(200, 500, 50_000)})
	if _, err := v.current(b.Context(), testTopic); err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n += 104729
		if _, found, err := v.Latest(b.Context(), testTopic, []byte(`{"id":`+strconv.Itoa(n%50_000)+`}`), At{}); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	v := openViews(b, b.TempDir())
	v.Follow(testTopic, []Source{benchSource(200, 500, 50_000)})
	rows := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Scan(b.Context(), testTopic, At{}, func(Row) error { rows++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
