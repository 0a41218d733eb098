package event

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// startPostgres runs a server from local binaries for one test and connects to it with the session settings that Datum
// documents. Without binaries the test is skipped, and says so.
func startPostgres(t *testing.T) *pgconn.PgConn {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		t.Skip("skipped: no Postgres server binaries in /usr/lib/postgresql/*/bin (apt-get install postgresql)")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "rowtrail-event")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // the server refuses to run as root
		const nobody = 65534
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	initdb := exec.Command(bin+"/initdb", "-D", dir+"/data", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freePort(t)
	server := exec.Command(bin+"/postgres", "-D", dir+"/data", "-p", strconv.Itoa(port), "-k", dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
	server.SysProcAttr, server.Dir = attr, dir
	var mu sync.Mutex
	var output []byte
	server.Stderr = writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		output = append(output, b...)
		return len(b), nil
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})
	dsn := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", port)
	deadline := time.Now().Add(20 * time.Second)
	for {
		config, err := pgconn.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"DateStyle": "ISO", "IntervalStyle": "postgres", "extra_float_digits": "3", "TimeZone": "UTC",
			"bytea_output": "hex", "lc_monetary": "C", "client_encoding": "UTF8",
		} {
			config.RuntimeParams[name] = value
		}
		conn, err := pgconn.ConnectConfig(context.Background(), config)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
			return conn
		}
		if time.Now().After(deadline) {
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("connect: %v\n%s", err, output)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
