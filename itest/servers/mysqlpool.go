package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// MySQLPool keeps one server of each flavour for all tests of a package that need no settings of their own. The zero
// value is ready for use; TestMain closes it.
type MySQLPool struct {
	Options Options // of every server, but for its version

	mu      sync.Mutex
	servers map[string]*MySQL
	broken  map[string]error
}

// Each runs a test on the pool's server of every flavour, as EachMySQL does.
func (p *MySQLPool) Each(t *testing.T, test func(t *testing.T, m *MySQL)) {
	t.Helper()
	EachMySQLVersion(t, func(t *testing.T, version string) { test(t, p.Get(t, version)) })
}

// Get is the pool's server of a version, or, of "", the one that tests of one server get. The first call starts it.
func (p *MySQLPool) Get(t testing.TB, version string) *MySQL {
	t.Helper()
	needMySQL(t)
	if version == "" {
		version = chosenFlavours()[0]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.servers[version]; m != nil {
		return m
	}
	if err := p.broken[version]; err != nil { // every test would wait for it
		t.Fatalf("start a server: %v", err)
	}
	opts := p.Options
	opts.Version = version
	if opts.Logf == nil {
		opts.Logf = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	m, err := StartMySQL(ctx, opts)
	if err != nil {
		if p.broken == nil {
			p.broken = map[string]error{}
		}
		p.broken[version] = err
		t.Fatalf("start a server: %v", err)
	}
	if p.servers == nil {
		p.servers = map[string]*MySQL{}
	}
	p.servers[version] = m
	return m
}

// Close ends the pool's servers.
func (p *MySQLPool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, m := range p.servers {
		errs = append(errs, m.Close())
	}
	p.servers = nil
	return errors.Join(errs...)
}

// EachMySQLVersion runs a test, which starts servers itself, for every version that ROWTRAIL_ITEST_MYSQL names.
func EachMySQLVersion(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	needMySQL(t)
	for _, v := range chosenFlavours() {
		t.Run(v, func(t *testing.T) { test(t, v) })
	}
}
