package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// message builds pgoutput messages.
type message struct{ b []byte }

func (m *message) u8(v byte) *message    { m.b = append(m.b, v); return m }
func (m *message) u16(v uint16) *message { m.b = binary.BigEndian.AppendUint16(m.b, v); return m }
func (m *message) u32(v uint32) *message { m.b = binary.BigEndian.AppendUint32(m.b, v); return m }
func (m *message) u64(v uint64) *message { m.b = binary.BigEndian.AppendUint64(m.b, v); return m }
func (m *message) str(s string) *message { m.b = append(append(m.b, s...), 0); return m }
func (m *message) text(s string) *message {
	m.u8('t').u32(uint32(len(s)))
	m.b = append(m.b, s...)
	return m
}

func TestParseMessages(t *testing.T) {
	begin, err := parseBegin(new(message).u64(0x10).u64(1000000).u32(7).b)
	if err != nil || begin != (beginMessage{0x10, postgresEpoch + 1000000, 7}) {
		t.Fatal(begin, err)
	}
	commit, err := parseCommit(new(message).u8(0).u64(0x10).u64(0x20).u64(5).b)
	if err != nil || commit != (commitMessage{0x10, 0x20, postgresEpoch + 5}) {
		t.Fatal(commit, err)
	}
	rel, err := parseRelation(new(message).u32(9).str("").str("t").u8('d').u16(2).u8(1).str("id").u32(23).u32(0xffffffff).u8(0).str("v").u32(1043).u32(14).b)
	want := relationMessage{9, "pg_catalog", "t", 'd', []relationColumn{{"id", 23, -1, true}, {"v", 1043, 14, false}}}
	if err != nil || cmp.Diff(rel, want, cmp.AllowUnexported(relationMessage{}, relationColumn{})) != "" {
		t.Fatal(rel, err)
	}
	ids, err := parseTruncate(new(message).u32(2).u8(1).u32(5).u32(6).b)
	if err != nil || len(ids) != 2 || ids[1] != 6 {
		t.Fatal(ids, err)
	}
	m, err := parseLogical(append(new(message).u8(1).u64(3).str("p").u32(2).b, 'x', 'y'))
	if err != nil || !m.transactional || m.at != 3 || m.prefix != "p" || string(m.content) != "xy" {
		t.Fatal(m, err)
	}
	if _, err := parseTruncate(new(message).u32(1 << 31).u8(0).u32(5).b); err == nil {
		t.Fatal("a truncate that is too short is accepted")
	}
	if _, err := parseBegin(new(message).u64(1).b); !errors.Is(err, errTruncated) {
		t.Fatal(err)
	}
	if _, err := parseCommit(new(message).u8(0).u64(1).u64(2).u64(3).u8(4).b); err == nil {
		t.Fatal("bytes left over are accepted")
	}
}

func TestParseTuple(t *testing.T) {
	tuple := new(message).u16(4).text("1").u8('n').u8('u').text("").b
	row := make(event.Row, 3)
	r := reader{b: tuple}
	if err := parseTuple(&r, []int{0, 1, 2, -1}, row, nil); err != nil || r.done() != nil {
		t.Fatal(err)
	}
	if string(row[0].Text) != "1" || row[0].State != event.Text || row[1].State != event.Null || row[2].State != event.Absent {
		t.Fatalf("%+v", row)
	}
	r = reader{b: tuple}
	if err := parseTuple(&r, []int{0, 1, 2, -1}, row, []bool{true, false, false, false}); err != nil || row[1].State != event.Absent {
		t.Fatalf("NULL of an old key's other column: %+v, %v", row, err)
	}
	r = reader{b: tuple}
	if err := parseTuple(&r, []int{0}, row, nil); err == nil {
		t.Fatal("a row of another width is accepted")
	}
	r = reader{b: new(message).u16(1).u8('b').u32(0).b}
	if err := parseTuple(&r, []int{0}, row, nil); err == nil {
		t.Fatal("an unknown form is accepted")
	}
}

// FuzzMessages: whatever comes, no parser panics, reads outside its input or allocates without bound.
func FuzzMessages(f *testing.F) {
	f.Add(new(message).u64(0x10).u64(1000000).u32(7).b)
	f.Add(new(message).u32(9).str("s").str("t").u8('d').u16(1).u8(1).str("id").u32(23).u32(0).b)
	f.Add(new(message).u16(2).text("abc").u8('u').b)
	f.Add(new(message).u32(2).u8(1).u32(5).u32(6).b)
	f.Add(append(new(message).u8(1).u64(3).str("p").u32(2).b, 'x', 'y'))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseBegin(b)
		_, _ = parseCommit(b)
		_, _ = parseRelation(b)
		_, _ = parseOrigin(b)
		_, _ = parseTruncate(b)
		_, _ = parseLogical(b)
		row := make(event.Row, 3)
		for n := 1; n <= 3; n++ {
			r := reader{b: b}
			_ = parseTuple(&r, []int{0, 1, 2}[:n], row, []bool{true, false, true}[:n])
		}
		_ = wholeFrames(b)
		_, _ = (&frames{src: bytes.NewReader(b)}).next(nil)
		_ = new(copyParser).row(b, row)
	})
}

func TestFramesNeverSplitAFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		for range rapid.IntRange(1, 30).Draw(t, "frames") {
			size := rapid.SampledFrom([]int{0, 1, 30, 5000, chunkBytes - 5, chunkBytes, chunkBytes + 7}).Draw(t, "size")
			all = append(all, 'd')
			all = binary.BigEndian.AppendUint32(all, uint32(size+4))
			all = append(all, bytes.Repeat([]byte{byte(size)}, size)...)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		f := &frames{src: &choppy{b: all, rand: rand.New(rand.NewPCG(seed, 1))}}
		var got []byte
		for {
			chunk, err := f.next(make([]byte, 0, chunkBytes))
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			if wholeFrames(chunk) != len(chunk) {
				t.Fatal("a chunk ends inside a frame")
			}
			got = append(got, chunk...)
		}
		if !bytes.Equal(got, all) {
			t.Fatalf("%d bytes of %d", len(got), len(all))
		}
	})
}

// choppy gives what it has in pieces of random size.
type choppy struct {
	b    []byte
	rand *rand.Rand
}

func (c *choppy) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(c.b), 1+c.rand.IntN(100000))
	copy(p, c.b[:n])
	c.b = c.b[n:]
	return n, nil
}

func TestFramesReadStopsAtMessages(t *testing.T) {
	all := append(append([]byte{'W', 0, 0, 0, 6}, 1, 2), 'd', 0, 0, 0, 5, 9)
	f := &frames{src: bytes.NewReader(all)}
	var first []byte
	for len(first) < 7 {
		p := make([]byte, 100)
		n, err := f.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, p[:n]...)
	}
	if !bytes.Equal(first, all[:7]) {
		t.Fatalf("%v", first)
	}
	chunk, err := f.next(nil)
	if err != nil || !bytes.Equal(chunk, all[7:]) {
		t.Fatal(chunk, err)
	}
}

func TestCopyText(t *testing.T) {
	var p copyParser
	row := make(event.Row, 4)
	if err := p.row([]byte("1\t\\N\t\ta\\tb\\\\\\n\\b\\f\\v\\r\n"), row); err != nil {
		t.Fatal(err)
	}
	if string(row[0].Text) != "1" || row[1].State != event.Null || row[2].State != event.Text || len(row[2].Text) != 0 || string(row[3].Text) != "a\tb\\\n\b\f\v\r" {
		t.Fatalf("%q", row)
	}
	for _, bad := range []string{"", "1\t2\t3\t4", "1\n", "1\t2\t3\t4\t5\n", "1\t2\t3\t4\\\n"} {
		if err := p.row([]byte(bad), row); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	c, errs := ParseConfig("shop", map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1", "plugin.name": "pgoutput",
		"database.hostname": "db", "database.port": "5433", "database.user": "u", "database.password": "p w:/@?#%", "database.dbname": "shop", "database.sslmode": "disable",
		"table.include.list": "public\\.orders,public\\.c[a,b]{1,2}", "max.batch.size": "10", "topic.creation.default.retention.ms": "5",
		"message.key.columns": "public.orders:a,b;public.x:c",
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if c.conn.Host != "db" || c.conn.Port != 5433 || c.conn.Password != "p w:/@?#%" || c.Database != "shop" || c.Prefix != "shop" {
		t.Fatalf("%+v", c.conn)
	}
	if c.Slot != "debezium" || c.Publication != "dbz_publication" || c.Autocreate != AutocreateFiltered || !c.Tombstones || !c.SkipTruncate || c.SkipDelete || c.Snapshot != SnapshotInitial {
		t.Fatalf("%+v", c)
	}
	if len(c.Ignored) != 1 || c.Topics.Configs["retention.ms"] != "5" || c.Topics.Partitions != -1 {
		t.Fatalf("%+v", c)
	}
	for name, want := range map[string]bool{"orders": true, "ORDERS": true, "orders2": false, "ca": true, "cab": true, "cabb": false, "xorders": false} {
		if c.captures("public", name) != want {
			t.Errorf("captures %s: %v", name, !want)
		}
	}
	if got := c.KeyFor("public", "orders"); len(got) != 2 || got[1] != "b" {
		t.Fatal(got)
	}
}

func TestConfigNamesEveryError(t *testing.T) {
	_, errs := ParseConfig("c", map[string]string{
		"database.dsn": "postgres://u:secret@h:bad/d", "slot.name": "Bad", "publication.autocreate.mode": "no_tables", "snapshot.mode": "when_needed",
		"tombstones.on.delete": "yes", "skipped.operations": "x", "transforms": "unwrap", "transforms.unwrap.type": "x", "column.mask.with.3.chars": "a", "tabel.include.list": "x",
		"plugin.name": "decoderbufs", "table.exclude.list": "(", "heartbeat.action.query": "SELECT 1", "time.precision.mode": "picoseconds", "topic.prefix": "a b",
		"snapshot.max.threads": "0", "tasks.max": "2", "value.converter": "io.confluent.connect.avro.AvroConverter", "publish.via.partition.root": "false",
	})
	got := map[string]string{}
	for _, err := range errs {
		var p *connectors.PropertyError
		if !errors.As(err, &p) {
			t.Fatalf("%T %v", err, err)
		}
		got[p.Property] = err.Error()
		if strings.Contains(err.Error(), "secret") {
			t.Fatalf("an error tells the password: %v", err)
		}
	}
	for _, name := range []string{
		"database.dsn", "slot.name", "publication.autocreate.mode", "snapshot.mode", "tombstones.on.delete", "skipped.operations", "transforms", "transforms.unwrap.type",
		"column.mask.with.3.chars", "tabel.include.list", "plugin.name", "table.exclude.list", "heartbeat.action.query", "time.precision.mode", "topic.prefix",
		"snapshot.max.threads", "tasks.max", "value.converter", "publish.via.partition.root",
	} {
		if got[name] == "" {
			t.Errorf("%s is accepted", name)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("also refused: %v", got)
	}
	if !strings.Contains(findError(errs, "tabel.include.list"), "did you mean table.include.list") {
		t.Errorf("no suggestion: %s", findError(errs, "tabel.include.list"))
	}
}

func findError(errs []error, property string) string {
	for _, err := range errs {
		var p *connectors.PropertyError
		if errors.As(err, &p) && p.Property == property {
			return err.Error()
		}
	}
	return ""
}

func TestFindings(t *testing.T) {
	base := func() *inspection {
		return &inspection{
			version: 150000, role: "app", replication: true, mayCreate: true,
			settings: map[string]string{"wal_level": "logical", "max_replication_slots": "10", "max_wal_senders": "10", "wal_sender_timeout": "60000", "max_slot_wal_keep_size": "-1", "server_encoding": "UTF8"},
			tables:   []*table{{schema: "public", name: "t", identity: 'd', primaryKey: []string{"id"}, mayRead: true, owned: true, columns: []column{{name: "id"}}}},
		}
	}
	cases := map[string]struct {
		change func(*inspection, *Config)
		want   string // "" : none
	}{
		"fit":         {func(*inspection, *Config) {}, ""},
		"wal_level":   {func(in *inspection, _ *Config) { in.settings["wal_level"] = "replica" }, "ALTER SYSTEM SET wal_level = logical"},
		"replication": {func(in *inspection, _ *Config) { in.replication = false }, `ALTER ROLE "app" REPLICATION`},
		"version":     {func(in *inspection, _ *Config) { in.version = 120000 }, "upgrade"},
		"slots":       {func(in *inspection, _ *Config) { in.slotsUsed = 10 }, "ALTER SYSTEM SET max_replication_slots = 14"},
		"senders":     {func(in *inspection, _ *Config) { in.sendersUsed = 10 }, "ALTER SYSTEM SET max_wal_senders = 14"},
		"keep size":   {func(in *inspection, _ *Config) { in.settings["max_slot_wal_keep_size"] = "100" }, "max_slot_wal_keep_size = -1"},
		"idle slots":  {func(in *inspection, _ *Config) { in.settings["idle_replication_slot_timeout"] = "60" }, "idle_replication_slot_timeout = 0"},
		"failover":    {func(_ *inspection, c *Config) { c.Failover = true }, "remove slot.failover"},
		"timeout":     {func(in *inspection, _ *Config) { in.settings["wal_sender_timeout"] = "1000" }, "wal_sender_timeout = '60s'"},
		"encoding":    {func(in *inspection, _ *Config) { in.settings["server_encoding"] = "SQL_ASCII" }, "UTF8"},
		"no tables":   {func(in *inspection, _ *Config) { in.tables = nil }, "table.include.list"},
		"select":      {func(in *inspection, _ *Config) { in.tables[0].mayRead = false }, `GRANT SELECT ON "public"."t" TO "app"`},
		"identity":    {func(in *inspection, _ *Config) { in.tables[0].primaryKey = nil }, `ALTER TABLE "public"."t" REPLICA IDENTITY FULL`},
		"nothing":     {func(in *inspection, _ *Config) { in.tables[0].identity = 'n' }, `REPLICA IDENTITY FULL`},
		"keyless":     {func(in *inspection, _ *Config) { in.tables[0].identity, in.tables[0].primaryKey = 'f', nil }, "message.key.columns"},
		"not owner":   {func(in *inspection, _ *Config) { in.tables[0].owned = false }, "CREATE PUBLICATION"},
		"may create":  {func(in *inspection, _ *Config) { in.mayCreate = false }, "GRANT CREATE ON DATABASE"},
		"disabled":    {func(_ *inspection, c *Config) { c.Autocreate = AutocreateDisabled }, `CREATE PUBLICATION "pub" FOR TABLE "public"."t"`},
		"all tables": {func(in *inspection, c *Config) {
			c.Autocreate, in.superuser, in.unidentified = AutocreateAllTables, true, []string{"public.x"}
		}, "filtered"},
		"other plugin": {func(in *inspection, _ *Config) { in.slot = &slot{plugin: "wal2json", database: "d"} }, "pg_drop_replication_slot('debezium')"},
		"other db":     {func(in *inspection, _ *Config) { in.slot = &slot{plugin: "pgoutput", database: "x"} }, "slot.name"},
		"slot lost":    {func(in *inspection, _ *Config) { in.slot = &slot{plugin: "pgoutput", database: "d", status: "lost"} }, "delete topic"},
		"slot in use": {func(in *inspection, _ *Config) {
			in.slot = &slot{plugin: "pgoutput", database: "d", active: true, activePID: 7}
		}, "pg_terminate_backend(7)"},
		"row filter": {func(in *inspection, _ *Config) {
			in.publication = full()
			in.publication.filtered = []string{"public.t"}
		}, "without WHERE"},
		"add table": {func(in *inspection, c *Config) {
			in.publication = full()
			in.publication.tables = nil
			c.Autocreate = AutocreateDisabled
		}, `ALTER PUBLICATION "pub" ADD TABLE "public"."t"`},
		"key not there": {func(_ *inspection, c *Config) { c.KeyColumns, _ = connectors.ParseKeyColumns("public.t:x") }, "message.key.columns"},
		"lossy": {func(in *inspection, c *Config) {
			c.Event.TimePrecision = event.TimeConnect
			in.described = map[*table]description{in.tables[0]: {lossy: []string{"at"}}}
		}, "time.precision.mode: adaptive"},
		"indescribable": {func(in *inspection, _ *Config) {
			in.described = map[*table]description{in.tables[0]: {err: connectors.Indescribable("", errors.New("x"))}}
		}, "column.exclude.list"},
		"standby": {func(in *inspection, _ *Config) { in.standby = true }, "primary"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, errs := ParseConfig("c", map[string]string{"database.dsn": "postgres://u@h/d", "publication.name": "pub"})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			in := base()
			tc.change(in, c)
			list := c.findings(in)
			if tc.want == "" {
				if len(list) > 0 {
					t.Fatalf("%+v", list)
				}
				return
			}
			if len(list) != 1 || !strings.Contains(list[0].Remedy, tc.want) || list[0].Problem == "" {
				t.Fatalf("%+v", list)
			}
		})
	}
}

func full() *publication {
	return &publication{owned: true, inserts: true, updates: true, deletes: true, truncates: true, viaRoot: true, tables: map[string]bool{"public.t": true}}
}

func TestResumeRoundTrip(t *testing.T) {
	want := &resume{
		server: server{"7", 3, "d"}, LSN: 0x100000002, Commit: 5, TimeUs: 6, Slot: "s", Complete: true,
		Loaded: loads{"public.a": {1, 10}, "public.b": {1, 11}, "public.c": {0xffffffffffffffff, 12}},
	}
	got, err := parseResume(want.append(nil))
	if err != nil || cmp.Diff(got, want, cmp.AllowUnexported(resume{}, loaded{})) != "" {
		t.Fatal(cmp.Diff(got, want, cmp.AllowUnexported(resume{}, loaded{})), err)
	}
	// What this build writes is what every later one must read.
	golden, err := os.ReadFile("testdata/resume_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, string(want.append(nil)), string(golden))
}

func TestResumeRefused(t *testing.T) {
	c, errs := ParseConfig("c", map[string]string{"database.dsn": "postgres://u@h/d"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for content, remedy := range map[string]string{
		`{"version":2,"lsn":{"new":"form"}}`: "a newer one",
		`x`:                                  "delete the topic",
		`{"version":1,"lsn":"nowhere"}`:      "pg_drop_replication_slot('debezium')",
	} {
		if _, err := c.readResume([]byte(content)); !connectors.IsFault(err) || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "c.position") {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestResolveTypes(t *testing.T) {
	known := map[uint32]pgType{
		1700: {namespace: "pg_catalog", name: "numeric", class: 'b', array: 1231},
		1231: {namespace: "pg_catalog", name: "_numeric", class: 'b', elem: 1700},
		1:    {name: "price", class: 'd', base: typeRef{1700, 99}, array: 2},
		2:    {name: "_price", class: 'b', elem: 1},
		3:    {name: "prices", class: 'd', base: typeRef{2, -1}, array: 4},
		4:    {name: "_prices", class: 'b', elem: 3},
		5:    {name: "broken", class: 'd', base: typeRef{77, -1}},
	}
	for _, tc := range []struct {
		ref       typeRef
		oid, elem uint32
		modifier  int32
	}{
		{typeRef{1700, 7}, 1700, 0, 7},
		{typeRef{1, -1}, 1700, 0, 99},
		{typeRef{1231, 7}, 1231, 1700, 7},
		{typeRef{2, -1}, 1231, 1700, 99}, // as an array of the domain's base
		{typeRef{3, -1}, 1231, 1700, 99},
	} {
		f, ok := resolveType(known, tc.ref)
		var elem uint32
		if f.Elem != nil {
			elem = f.Elem.OID
		}
		if !ok || f.OID != tc.oid || elem != tc.elem || f.Modifier != tc.modifier {
			t.Errorf("%+v: %+v", tc.ref, f)
		}
	}
	if f, ok := resolveType(known, typeRef{4, -1}); !ok || f.Elem == nil || f.Elem.Elem == nil {
		t.Errorf("an array of a domain over an array: %+v", f) // which event refuses
	}
	if f, ok := resolveType(known, typeRef{5, -1}); ok {
		t.Errorf("a type that is gone: %+v", f)
	}
}

func TestP16Divergence(t *testing.T) {
	lines := parseHistory("1\t0/3000000\tno recovery target specified\n\n2\t0/5000000\tx\n")
	now := identity{server: server{Timeline: 3}}
	for _, tc := range []struct {
		timeline int32
		at       lsn
		ok       bool
	}{{1, 0x2000000, true}, {1, 0x3000000, true}, {1, 0x3000001, false}, {2, 0x4000000, true}, {2, 0x6000000, false}, {7, 1, false}} {
		err := divergence(lines, &resume{server: server{Timeline: tc.timeline}, LSN: tc.at}, now)
		if (err == nil) != tc.ok || (err != nil && !connectors.IsFault(err)) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// statusWriter records standby status updates.
type statusWriter struct {
	mu   sync.Mutex
	seen []uint64
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(b) != 39 || b[0] != 'd' || binary.BigEndian.Uint32(b[1:]) != 38 || b[5] != 'r' {
		return 0, errors.New("not a status update")
	}
	w.seen = append(w.seen, binary.BigEndian.Uint64(b[14:]))
	return len(b), nil
}

func TestP11FeedbackNeverFalls(t *testing.T) {
	w := &statusWriter{}
	f := newFeedback(w, time.Millisecond, 50)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
	for _, at := range []lsn{60, 55, 70, 10, 70} {
		f.confirm(at)
		f.poke()
		time.Sleep(3 * time.Millisecond)
	}
	cancel()
	<-done
	for i, at := range w.seen {
		if i > 0 && at < w.seen[i-1] {
			t.Fatalf("falls: %v", w.seen)
		}
	}
	if w.seen[0] < 50 || w.seen[len(w.seen)-1] != 70 {
		t.Fatalf("%v", w.seen)
	}
}

// A hundred commits within the gap are two statuses: the first at once, the last when the gap is over.
func TestFeedbackGathersConfirmations(t *testing.T) {
	w := &statusWriter{}
	f := newFeedback(w, time.Hour, 0)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
	began := time.Now()
	for i := range 100 {
		f.confirm(lsn(i + 1))
	}
	last := func() (n int, at uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n = len(w.seen); n > 0 {
			at = w.seen[n-1]
		}
		return n, at
	}
	eventually(t, "the last position", func() bool { _, at := last(); return at == 100 })
	took := time.Since(began)
	cancel()
	<-done
	if n, _ := last(); n > 2+int(took/confirmGap) {
		t.Fatalf("%d statuses in %s", n, took)
	}
}

func TestStatusInterval(t *testing.T) {
	for _, tc := range []struct {
		configured time.Duration
		timeout    int
		want       time.Duration
	}{{10 * time.Second, 60000, 10 * time.Second}, {10 * time.Second, 1000, 250 * time.Millisecond}, {10 * time.Second, 0, 10 * time.Second}} {
		if got := statusInterval(tc.configured, tc.timeout); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func BenchmarkParseTuple(b *testing.B) {
	tuple := new(message).u16(5).text("123456").text("some name").text("12.34").text("2026-01-02 03:04:05.678901+00").u8('n').b
	row := make(event.Row, 5)
	pick := []int{0, 1, 2, 3, 4}
	b.ReportAllocs()
	for range b.N {
		r := reader{b: tuple}
		if err := parseTuple(&r, pick, row, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCopyRow(b *testing.B) {
	line := []byte("123456\tsome name\t12.34\t2026-01-02 03:04:05.678901+00\t\\N\n")
	row := make(event.Row, 5)
	var p copyParser
	b.ReportAllocs()
	for range b.N {
		if err := p.row(line, row); err != nil {
			b.Fatal(err)
		}
	}
}
