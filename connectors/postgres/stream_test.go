package postgres

import "testing"

func TestLoadThenStream(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 3)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 5) i")
	r := start(t, l, config(t, d, nil)).streaming()
	d.exec("INSERT INTO t VALUES (6, E'a\\tb\\n\"')", "UPDATE t SET v = NULL WHERE id = 1", "DELETE FROM t WHERE id = 2")
	list := l.waitFor(9, "p.public.t")
	t.Log(summary(list))
	t.Log(summary(l.read("p.transaction", "p.position", "p.schema")))
	for _, x := range l.read("p.transaction", "p.position", "p.schema") {
		t.Log(x.Topic, x.Key, x.Value)
	}
	t.Logf("%+v", r.c.Status())
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}
