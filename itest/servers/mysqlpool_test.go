package servers

import (
	"context"
	"testing"
)

func TestMySQLPoolStartsEachServerOnce(t *testing.T) {
	var pool MySQLPool
	first := pool.Get(t, "")
	if again := pool.Get(t, first.Version()); again != first {
		t.Errorf("%s was started twice", first.Version())
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Exec(context.Background(), "", "SELECT 1"); err == nil {
		t.Error("the server answers after the pool was closed")
	}
}
