package mysql

import "testing"

const cutUUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

// TestCutPartsTransactions: each form of a place against ids of the transaction topic.
func TestCutPartsTransactions(t *testing.T) {
	const other = "8a94f357-aab4-11df-86ab-c80aa9429562"
	for _, c := range []struct {
		cut, id       string
		before, known bool
	}{
		{cutUUID + ":5", cutUUID + ":5", true, true},
		{cutUUID + ":5", cutUUID + ":6", false, true},
		{"3E11FA47-71CA-11E1-9E33-C80AA9429562:5", cutUUID + ":4", true, true},
		{cutUUID + ":5", other + ":1", false, false},
		{cutUUID + ":tag:5", cutUUID + ":4", false, false},
		{cutUUID + ":tag:5", cutUUID + ":tag:4", true, true},
		{cutUUID + ":1-5", cutUUID + ":5", true, true},
		{cutUUID + ":1-5", other + ":1", false, true},
		{cutUUID + ":1-3:7, " + other + ":1-2", cutUUID + ":5", false, true},
		{cutUUID + ":1-3:7, " + other + ":1-2", other + ":2", true, true},
		{"0-1-5", "0-2-5", true, true},
		{"0-1-5", "0-1-6", false, true},
		{"0-1-5", "1-1-2", false, false},
		{"0-1-5,1-1-2", "1-1-3", false, true},
		{"mysql-bin.000003:120", "file=mysql-bin.000003,pos=120", true, true},
		{"mysql-bin.000003:120", "file=mysql-bin.000003,pos=121", false, true},
		{"mysql-bin.1000000:4", "file=mysql-bin.999999,pos=900", true, true},
		{"mysql-bin.999999:900", "file=mysql-bin.1000000,pos=4", false, true},
		{"mysql-bin.000003:120", cutUUID + ":5", false, false},
		{cutUUID + ":5", "file=mysql-bin.000003,pos=121", false, false},
		{cutUUID + ":5", "731:26523512", false, false},
	} {
		cut, ok := ParseCut(c.cut)
		if !ok {
			t.Errorf("%s is not read", c.cut)
			continue
		}
		before, known := cut.Before(c.id)
		if known != c.known || known && before != c.before {
			t.Errorf("%s and %s: before %v, known %v; want %v, %v", c.cut, c.id, before, known, c.before, c.known)
		}
	}
	for _, text := range []string{"", "now", "12", "0/16B3748", "-5m", "2026-01-31 12:00:00", "2026-01-31T12:00:00.000001Z", "731:26523512", "mysql-bin.000003", "a.b:1"} {
		if _, ok := ParseCut(text); ok {
			t.Errorf("%q is read as a place", text)
		}
	}
}

// TestCutIsReached compares a place with a connector's position.
func TestCutIsReached(t *testing.T) {
	for _, c := range []struct {
		cut, position  string
		reached, known bool
	}{
		{cutUUID + ":5", cutUUID + ":1-5", true, true},
		{cutUUID + ":6", cutUUID + ":1-5", false, true},
		{cutUUID + ":1-4", cutUUID + ":1-5", true, true},
		{"0-1-5", "0-2-6,1-1-1", true, true},
		{"0-1-7", "0-2-6,1-1-1", false, true},
		{"binlog.000002:5", "binlog.000002:5", true, true},
		{"binlog.000002:6", "binlog.000002:5", false, true},
		{"binlog.000002:6", cutUUID + ":1-5", false, false},
		{cutUUID + ":5", "0/16B3748", false, false},
		{cutUUID + ":5", "0-1-5", false, false},
	} {
		cut, _ := ParseCut(c.cut)
		if reached, known := cut.Reached(c.position); known != c.known || known && reached != c.reached {
			t.Errorf("%s at %s: reached %v, known %v; want %v, %v", c.cut, c.position, reached, known, c.reached, c.known)
		}
	}
}
