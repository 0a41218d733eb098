package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/sink"
)

func TestParseConfig(t *testing.T) {
	c, errs := ParseConfig("w", []string{"shop.public.*"}, map[string]string{
		"dsn": "postgres://u:secret@127.0.0.1:5433/dw", "target.schema": "dw", "table.map": "public.a:x.y, public.b:x.z", "schema.evolution": "none",
		"offsets.schema": "rt", "batch.max.rows": "7", "batch.max.bytes": "8", "batch.max.ms": "9", "consistency": "transaction", "truncate.enabled": "false",
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if c.Connect.Port != 5433 || c.Naming.Schema != "dw" || c.OffsetsSchema != "rt" || c.Evolve || c.Truncate || c.MaxRows != 7 || c.MaxBytes != 8 ||
		c.tableFor("public", "a").String() != `"x"."y"` || c.tableFor("public", "c").String() != `"dw"."c"` {
		t.Fatalf("%+v", c)
	}
}

// Everything that is wrong is reported at once, by the property's name, and no secret is in it.
func TestParseConfigReportsAll(t *testing.T) {
	_, errs := ParseConfig("", nil, map[string]string{
		"dsn": "postgres://u:secret@[bad", "schema.evolution": "full", "table.map": "a", "batch.max.rows": "none", "consistency": "key", "nonsense": "1",
		"offsets.schema": "",
	})
	got := map[string]string{}
	for _, err := range errs {
		var pe *sink.PropertyError
		if !errors.As(err, &pe) {
			t.Fatalf("%T %v", err, err)
		}
		got[pe.Property] = pe.Err.Error()
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("a secret in %v", err)
		}
	}
	for _, p := range []string{"name", "topics", "dsn", "schema.evolution", "table.map", "batch.max.rows", "consistency", "nonsense", "offsets.schema"} {
		if got[p] == "" {
			t.Errorf("no error for %s: %v", p, got)
		}
	}
}

func TestCheck(t *testing.T) {
	ctx := context.Background()
	dsn, conn := database(t)
	if f := Check(ctx, config(t, "w", dsn, nil)); len(f) != 0 {
		t.Fatalf("a superuser and an empty database: %+v", f)
	}
	must(t, conn, `CREATE ROLE poor LOGIN; CREATE SCHEMA rowtrail; CREATE SCHEMA dw; CREATE TABLE dw.t (id integer PRIMARY KEY)`)
	t.Cleanup(func() { must(t, conn, "DROP OWNED BY poor; DROP ROLE poor") })
	poor := strings.Replace(dsn, "postgres@", "poor@", 1)
	if poor == dsn {
		poor = strings.Replace(dsn, "user=postgres", "user=poor", 1)
	}
	c := config(t, "w", poor, map[string]string{"target.schema": "dw", "table.map": "public.t:dw.t"})
	for round := 0; ; round++ {
		findings := Check(ctx, c)
		if len(findings) == 0 {
			break
		}
		if round == 3 {
			t.Fatalf("the remedies do not mend: %+v", findings)
		}
		for _, f := range findings {
			must(t, conn, f.Remedy) // each remedy is exact SQL
		}
	}
	if s := openSession(t, c); s == nil {
		t.Fatal("no session after the check passed")
	}
	missing := config(t, "w", strings.Replace(dsn, "/t", "/none", 1), nil)
	missing.Connect.Database = "none"
	if f := Check(ctx, missing); len(f) != 1 || f[0].Remedy != `CREATE DATABASE "none"` {
		t.Fatalf("missing database: %+v", f)
	}
	missing.Connect.Port = 1
	if f := Check(ctx, missing); len(f) != 1 || !strings.Contains(f[0].Remedy, "127.0.0.1:1") {
		t.Fatalf("nothing listens: %+v", f)
	}
}
