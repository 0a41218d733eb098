package admin

import (
	"errors"
	"testing"
	"time"
)

func TestExpandKey(t *testing.T) {
	for _, c := range []struct{ name, sample, written, want string }{
		{"bare number", `{"id":7}`, "42", `{"id":42}`},
		{"bare text for a text key", `{"code":"x"}`, "42", `{"code":"42"}`},
		{"quoted text for a text key", `{"code":"x"}`, `"4 2"`, `{"code":"4 2"}`},
		{"text with signs", `{"code":"x"}`, `a<b>&"c`, `{"code":"a<b>&\"c"}`},
		{"word for a number key", `{"id":7}`, "abc", `{"id":"abc"}`},
		{"JSON with spaces", `{"id":7}`, ` { "id" : 42 } `, `{"id":42}`},
		{"JSON in another order", `{"a":1,"b":"x"}`, `{"b":"y","a":2}`, `{"a":2,"b":"y"}`},
		{"empty text", `{"code":"x"}`, "", `{"code":""}`},
		{"empty text, quoted", `{"code":"x"}`, `""`, `{"code":""}`},
		{"empty text among plain text keys", "user-1", "", ""},
		{"with the converter's schema", `{"schema":{"type":"struct"},"payload":{"id":7}}`, "42", `{"schema":{"type":"struct"},"payload":{"id":42}}`},
		{"large number stays as it is", `{"id":7}`, "9223372036854775807", `{"id":9223372036854775807}`},
		{"no key to learn from", "", `{"id": 1}`, `{"id":1}`},
		{"no key to learn from, bare", "", "k", "k"},
		{"plain text keys", "user-1", "user-2", "user-2"},
		{"plain text keys with blanks", "user-1", " user ", " user "},
	} {
		got, err := expandKey([]byte(c.sample), c.written)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	if _, err := expandKey([]byte(`{"a":1,"b":2}`), "5"); !errors.Is(err, errKeyParts) || err.Error() != `key has several columns: write {"a": ..., "b": ...}` {
		t.Errorf("several columns: %v", err)
	}
	for given, want := range map[string]string{
		`{"z":2}`:             `key has other columns than "z": write {"a": ..., "b": ...}`,
		`{"a":1}`:             `key has other columns than "a": write {"a": ..., "b": ...}`,
		`{"a":1,"b":2,"c":3}`: `key has other columns than "a", "b", "c": write {"a": ..., "b": ...}`,
		`{}`:                  `key has other columns than none: write {"a": ..., "b": ...}`,
	} {
		if _, err := expandKey([]byte(`{"a":1,"b":2}`), given); !errors.Is(err, errKeyColumns) || err.Error() != want {
			t.Errorf("%s: %v", given, err)
		}
	}
	if _, err := expandKey([]byte(`{"a":1}`), `{"a":`); !errors.Is(err, errKeySyntax) {
		t.Errorf("broken JSON: %v", err)
	}
}

func FuzzExpandKey(f *testing.F) {
	f.Add(`{"id":7}`, "42")
	f.Add(`{"schema":{},"payload":{"a":"b","c":1}}`, `{"c":2}`)
	f.Fuzz(func(t *testing.T, sample, written string) {
		if key, err := expandKey([]byte(sample), written); err == nil && key == nil && written != "" {
			t.Fatal("no key and no error")
		}
	})
}

func TestParseAt(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"": "now", "now": "now", "0": "offset 0", "1234": "offset 1234", "0/16B3748": "position 0/16B3748", "1A/FF": "position 1A/FF",
		"2026-01-31T11:00:00Z": "time 2026-01-31T11:00:00Z", "2026-01-31 11:00:00": "time 2026-01-31T11:00:00Z",
		"2026-01-31T11:00:00.5+01:00": "time 2026-01-31T10:00:00.5Z", "2026-01-31": "time 2026-01-31T00:00:00Z", "-5m": "time 2026-01-31T11:55:00Z", "-7d": "time 2026-01-24T12:00:00Z", "-1w2d3h": "time 2026-01-22T09:00:00Z",
	} {
		at, err := ParseAt(text, now)
		got := "?"
		switch {
		case err != nil:
			got = err.Error()
		case at.Now:
			got = "now"
		case at.Offset != nil:
			got = "offset " + time.Duration(*at.Offset).String()
			if *at.Offset == 0 {
				got = "offset 0"
			} else if *at.Offset == 1234 {
				got = "offset 1234"
			}
		case at.Position != nil:
			got = "position " + FormatLSN(*at.Position)
		case at.Time != nil:
			got = "time " + at.Time.UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"yesterday", "-5", "--5m", "0/zz", "2026-13-01", "1.5"} {
		if at, err := ParseAt(text, now); err == nil {
			t.Errorf("%q is accepted as %+v", text, at)
		}
	}
}
