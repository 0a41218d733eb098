package spread

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/snapshot"
)

func randomRow(rng *rand.Rand) snapshot.Row {
	field := func() []byte {
		switch rng.IntN(4) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, rng.IntN(300))
		for i := range b {
			b[i] = byte(rng.Int())
		}
		return b
	}
	r := snapshot.Row{
		Topic: "t", Partition: rng.Int32(), Offset: rng.Int64(), Timestamp: time.UnixMilli(rng.Int64N(1 << 45)).UTC(), Deleted: rng.IntN(2) == 0,
		Key: field(), Value: field(), Place: field(), OldKey: field(), Hash: field(), WholeFrom: rng.Int64N(100),
	}
	if rng.IntN(2) == 0 {
		r.CommitTime, r.Position = time.UnixMicro(rng.Int64N(1<<50)-1<<49).UTC(), rng.Uint64()
	}
	return r
}

func TestRowsArriveAsTheyWere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		r := randomRow(rng)
		b := appendRow(nil, &r)
		got, err := parseRow("t", b)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v\n%+v\n%v", got, r, err)
		}
		if _, err := parseRow("t", b[:rng.IntN(len(b))]); err == nil {
			t.Fatal("a cut row was read")
		}
	}
}

func FuzzParseRow(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		r := randomRow(rng)
		f.Add(appendRow(nil, &r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRow("t", b)
		if err != nil {
			return
		}
		again, err := parseRow("t", appendRow(nil, &r))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v, %+v, %v", r, again, err)
		}
	})
}

// TestCutAnswersAreErrors: wherever an answer ends, it is whole or an error.
func TestCutAnswersAreErrors(t *testing.T) {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	row := snapshot.Row{Topic: "t", Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(5).UTC()}
	for range 3 {
		if err := errors.Join(writeFrame(w, frameRow, appendRow(nil, &row)), writeFrame(w, framePing, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writeFrame(w, frameEnd, nil), w.Flush()); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for n := range len(whole) + 1 {
		r := &remote{node: 2, topic: "t", in: bufio.NewReader(bytes.NewReader(whole[:n]))}
		rows := 0
		var err error
		for more := true; more && err == nil; {
			if _, more, err = r.Next(); more {
				rows++
			}
		}
		if ended := n == len(whole); ended != (err == nil) || ended && rows != 3 {
			t.Errorf("an answer that ends at byte %d of %d: %d rows, %v", n, len(whole), rows, err)
		}
		if err != nil && (!errors.Is(err, io.ErrUnexpectedEOF) || !Moved(err)) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func TestErrorsArriveAsWhatTheyAre(t *testing.T) {
	for is, known := range map[error]bool{
		log.ErrCorrupt: false, log.ErrNotLeader: true, snapshot.ErrUnknownTopic: true, snapshot.ErrNotReady: true, snapshot.ErrClosed: true,
		snapshot.ErrNoPosition: true, snapshot.ErrAt: true,
	} {
		err := decodeFailure(7, "t", encodeFailure(fmt.Errorf("read t: %w", is)))
		if want := fmt.Sprintf("node 7: read t: %v", is); err.Error() != want || errors.Is(err, is) != known {
			t.Errorf("%v arrives as %v", is, err)
		}
	}
	elsewhere := decodeFailure(7, "t", encodeFailure(&snapshot.ElsewhereError{Topic: "t", Partition: 3}))
	if !errors.Is(elsewhere, snapshot.ErrElsewhere) || !Moved(elsewhere) {
		t.Error(elsewhere)
	}
	lost := &snapshot.CompactedError{Topic: "t", Partition: 3, Whole: 9, Absent: true}
	if err := decodeFailure(7, "t", encodeFailure(fmt.Errorf("look up: %w", lost))); !reflect.DeepEqual(err, error(lost)) {
		t.Error(err)
	}
}
