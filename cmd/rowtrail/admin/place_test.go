package admin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/snapshot"
)

// binlogNode is a node with the connector shop of MySQL.
type binlogNode struct {
	fakeNode
	position string
}

func (binlogNode) Topics() []Topic {
	var list []Topic
	for _, name := range []string{"shop", "shop.transaction", "shop.schema", "shop.db.orders", "alone.db.orders"} {
		list = append(list, Topic{Name: name, Partitions: []Partition{{HighWatermark: 10}}})
	}
	return list
}

func (n binlogNode) Topic(name string) (Topic, bool) {
	for _, t := range n.Topics() {
		if t.Name == name {
			return t, true
		}
	}
	return Topic{}, false
}

func (n binlogNode) Connectors() []connectors.Status {
	return []connectors.Status{{Name: "shop", Type: "mysql", Here: true, Position: n.position}}
}

// cutViews answers with the position that a question cuts at.
type cutViews struct {
	fakeViews
	asked *snapshot.At
}

func (v cutViews) Scan(ctx context.Context, topic string, at snapshot.At, fn func(snapshot.Row) error) error {
	if topic != "shop.transaction" {
		*v.asked = at
	}
	return v.fakeViews.Scan(ctx, topic, at, fn)
}

// transactionRows are END records of transactions with these ids, numbered from 11.
func transactionRows(schemas bool, ids ...string) (list []snapshot.Row) {
	for i, id := range ids {
		end := event.TransactionEnd{Status: event.TransactionEndMark, ID: id}
		list = append(list, snapshot.Row{
			Topic: "shop.transaction", Offset: int64(i), Position: uint64(11 + i), Key: end.AppendKey(nil, schemas), Value: end.AppendValue(nil, schemas),
		})
	}
	return list
}

func ask(t *testing.T, node Node, views Views, path string) (int, string) {
	t.Helper()
	s, err := New(Options{Node: node, Views: views, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.mux.Load().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	b, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(b)
}

// TestPointsInABinlog: GTIDs, sets and files with offsets find the transaction that they end with, or say why they find none.
func TestPointsInABinlog(t *testing.T) {
	const uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	const other = "8a94f357-aab4-11df-86ab-c80aa9429562"
	gtids := []string{uuid + ":1", uuid + ":3", other + ":7", uuid + ":4"}
	for _, c := range []struct {
		at       string
		ids      []string
		position string // of the connector
		want     string
	}{
		{uuid + ":3", gtids, uuid + ":1-4", "position 12"},
		{strings.ToUpper(uuid) + ":3", gtids, uuid + ":1-4", "position 12"},
		{uuid + ":2", gtids, uuid + ":1-4", "position 11"}, // it changed no captured table
		{uuid + ":1-3", gtids, uuid + ":1-4," + other + ":7", "position 12"},
		{uuid + ":1-4," + other + ":1-7", gtids, uuid + ":1-4," + other + ":1-7", "position 14"},
		{uuid + ":1-4", gtids, uuid + ":1-4", "parts no two transactions"},
		{uuid + ":9", gtids, uuid + ":1-4", "is beyond"},
		{uuid + ":9", gtids, uuid + ":1-9", "position 14"},
		{uuid + ":1", gtids[1:], uuid + ":1-4", "before the first transaction"},
		{"0-1-5", gtids, uuid + ":1-4", "cannot be compared"},
		{"binlog.000003:120", gtids, uuid + ":1-4", "cannot be compared"},
		{"0-1-2", []string{"0-1-1", "0-1-2", "0-2-3"}, "0-2-3", "position 12"},
		{"0-2-3", []string{"0-1-1", "0-1-2", "0-2-3"}, "0-2-3", "position 13"},
		{"binlog.000003:120", []string{"file=binlog.000002,pos=900", "file=binlog.000003,pos=120", "file=binlog.000003,pos=121"}, "binlog.000003:300", "position 12"},
		{"binlog.000003:119", []string{"file=binlog.000002,pos=900", "file=binlog.000003,pos=120", "file=binlog.000003,pos=121"}, "binlog.000003:300", "position 11"},
		{"binlog.000004:4", []string{"file=binlog.000002,pos=900"}, "binlog.000003:300", "is beyond"},
		{"0/16B3748", gtids, uuid + ":1-4", "position of Postgres"},
	} {
		for _, schemas := range []bool{false, true} {
			var asked snapshot.At
			views := cutViews{fakeViews{rows: transactionRows(schemas, c.ids...)}, &asked}
			code, body := ask(t, binlogNode{position: c.position}, views, "/v1/state/shop.db.orders?at="+url.QueryEscape(c.at))
			got := body
			if asked.Position != nil {
				got = fmt.Sprintf("position %d", *asked.Position)
			}
			if !strings.Contains(got, c.want) || strings.HasPrefix(c.want, "position ") != (code == http.StatusOK) && c.want != "position of Postgres" {
				t.Errorf("%s of %v: %d %s, want %s", c.at, c.ids, code, got, c.want)
			}
		}
	}
	if code, body := ask(t, binlogNode{}, cutViews{fakeViews{}, &snapshot.At{}}, "/v1/state/alone.db.orders?at="+uuid+":3"); code != http.StatusBadRequest || !strings.Contains(body, "no connector writes") {
		t.Errorf("a topic of nobody: %d %s", code, body)
	}
}

// TestPlacesAreTheSources: rows of a binlog show a GTID or file:pos, those of Postgres an LSN, and a tombstone what its delete has.
func TestPlacesAreTheSources(t *testing.T) {
	at := time.Unix(1, 0)
	row := func(offset int64, commit uint64, source string) snapshot.Row {
		r := snapshot.Row{Topic: "shop.db.orders", Offset: offset, Position: commit, Timestamp: at, Key: []byte(`{"id":1}`), Deleted: source == ""}
		if source != "" {
			r.Value = []byte(`{"before":null,"after":{"id":1},"source":` + source + `,"op":"u"}`)
		}
		return r
	}
	rows := []snapshot.Row{
		row(0, 3, `{"connector":"mysql","gtid":null,"file":"binlog.000003","pos":4294967299}`),
		row(1, 4, `{"connector":"mysql","gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:5","file":"binlog.000003","pos":17}`),
		row(2, 5, `{"connector":"mariadb","gtid":"0-1-5","file":"binlog.000003","pos":17}`),
		row(3, 5, ""),
		row(4, 6, ""),
		row(5, 1<<32+255, `{"connector":"postgresql","lsn":7}`),
		row(6, 1<<32+255, ""),
	}
	_, body := ask(t, binlogNode{}, fakeViews{rows: rows}, "/v1/history/shop.db.orders/1")
	want := []string{`"binlog.000003:4294967299"`, `"3e11fa47-71ca-11e1-9e33-c80aa9429562:5"`, `"0-1-5"`, `"0-1-5"`, "", `"1/FF"`, `"1/FF"`}
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), body)
	}
	for i, w := range want {
		if has := strings.Contains(lines[i], `"position":`); has != (w != "") || w != "" && !strings.Contains(lines[i], `"position":`+w) {
			t.Errorf("row %d: want %s in %s", i, w, lines[i])
		}
	}
	var first Places
	if got := first.Of(nil, 5); got != "" {
		t.Errorf("a tombstone of nothing known is at %q", got)
	}
	var transactions Places
	for id, place := range map[string]string{"0-1-5": "0-1-5", "file=binlog.000003,pos=12": "binlog.000003:12", "731:26523512": "0/5"} {
		end := event.TransactionEnd{Status: event.TransactionEndMark, ID: id}
		if got := transactions.Of(bytes.Clone(end.AppendValue(nil, false)), 5); got != place {
			t.Errorf("transaction %s is at %q, want %q", id, got, place)
		}
	}
}
