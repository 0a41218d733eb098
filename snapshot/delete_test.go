package snapshot

import "testing"

const deleteValue = `{"before":{"id":1},"after":null,"source":{},"op":"d","ts_ms":1}`

// TestDeleteEventDeletes: a connector may be told to write no tombstones; its delete event alone ends a row.
func TestDeleteEventDeletes(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	at := func(commit uint64, key, value string) testRecord {
		r := keyed(key, value)
		r.place = &testPlace{commit: commit, time: int64(commit)}
		return r
	}
	src.append(0, at(10, "a", `{"before":null,"after":{"id":1},"source":{},"op":"c"}`))
	src.append(0, at(10, "b", `{"before":null,"after":{"id":2},"source":{},"op":"c"}`))
	src.append(0, at(20, "a", deleteValue))
	src.append(0, keyed("c", deleteValue)) // another producer's: its values are no events to a view
	v.Follow(testTopic, []Source{src})
	row, found := latest(t, v, "a")
	if !found || !row.Deleted || string(row.Value) != deleteValue || row.Position != 20 {
		t.Errorf("latest: %+v, found %v", row, found)
	}
	if row, found := latest(t, v, "c"); !found || row.Deleted {
		t.Errorf("another producer's record: %+v, found %v", row, found)
	}
	for position, want := range map[uint64]string{15: "ab", 20: "b"} {
		got, offset := "", int64(1)
		if position == 20 {
			offset = 2
		}
		row, found, err := v.Latest(t.Context(), testTopic, []byte("a"), At{Position: &position})
		if err != nil || !found || row.Deleted != (position >= 20) {
			t.Errorf("at %d: %+v, %v, %v", position, row, found, err)
		}
		if err := v.Scan(t.Context(), testTopic, At{Offset: &offset}, func(r Row) error {
			if string(r.Key) != "c" {
				got += string(r.Key)
			}
			return nil
		}); err != nil || got != want {
			t.Errorf("state at offset %d: %q, %v, want %q", offset, got, err, want)
		}
	}
	history := []bool{}
	if err := v.History(t.Context(), testTopic, []byte("a"), func(r Row) error {
		history = append(history, r.Deleted)
		return nil
	}); err != nil || len(history) != 2 || history[0] || !history[1] {
		t.Errorf("history %v, %v", history, err)
	}
}

func TestIsDelete(t *testing.T) {
	for value, want := range map[string]bool{
		deleteValue: true,
		`{"schema":{},"payload":` + deleteValue + `}`:                                         true,
		`{"before":{"after":null},"after":{"op":"d"},"source":{},"op":"u"}`:                   false,
		`{"before":null,"after":{"op":"d","x":{"after":null}},"source":{},"op":"c"}`:          false,
		`{"before":null,"after":{"note":"\"op\":\"d\",\"after\":null"},"source":{},"op":"c"}`: false,
		`{"before":null,"after":null,"source":{},"op":"t"}`:                                   false,
		`"op":"d","after":null`: false,
		``:                      false,
	} {
		if got := isDelete([]byte(value)); got != want {
			t.Errorf("%s: %v", value, got)
		}
	}
}
