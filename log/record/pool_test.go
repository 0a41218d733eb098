package record

import (
	"testing"
	"time"
)

// TestPoolBoundsReaders: no more readers are lent out than the pool has, and none keeps a large buffer.
func TestPoolBoundsReaders(t *testing.T) {
	p := NewPool(2, 64<<20)
	a, b := p.Get(), p.Get()
	got := make(chan *Reader)
	go func() { got <- p.Get() }()
	select {
	case <-got:
		t.Fatal("a third reader")
	case <-time.After(20 * time.Millisecond):
	}
	a.d.out = make([]byte, 0, 32<<20)
	p.Put(a)
	if c := <-got; cap(c.d.out) > keepUnpacked {
		t.Errorf("a buffer of %d bytes is kept", cap(c.d.out))
	}
	p.Put(b)
}

// TestRewritersAreBounded: no more are lent out than there are, and they are used again.
func TestRewritersAreBounded(t *testing.T) {
	p := NewRewriters(1, 1<<20)
	w := p.Get()
	got := make(chan *Rewriter)
	go func() { got <- p.Get() }()
	select {
	case <-got:
		t.Fatal("a second rewriter")
	case <-time.After(20 * time.Millisecond):
	}
	p.Put(w)
	if again := <-got; again != w {
		t.Error("another rewriter was made")
	}
}
