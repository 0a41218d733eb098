package peer

import (
	"strings"
	"testing"
	"time"
)

// TestWhoCallsIsAnswered: also where nothing else says where it is, or what does is out of date. That its process ends is noticed as ever.
func TestWhoCallsIsAnswered(t *testing.T) {
	p := newPair(t)
	delete(p.addrs, 2)
	if _, err := p.nets[1].Call(t.Context(), 2, nil); err == nil || !strings.Contains(err.Error(), "its address is not known") {
		t.Error(err)
	}
	p.addrs[2] = p.addrs[1] // another node is there now
	if _, err := p.nets[1].Call(t.Context(), 2, nil); err == nil || !strings.Contains(err.Error(), "node 1 answers at") {
		t.Error(err)
	}
	p.nets[2].Send(1, Control, Frame{[]byte("a")})
	p.eventually("its call", func() bool { return len(p.got[1]) == 1 })
	if b, err := p.nets[1].Call(t.Context(), 2, []byte("hello")); err != nil || string(b) != "2 of 1: hello" {
		t.Errorf("%q, %v", b, err)
	}
	p.nets[1].Send(2, Control, Frame{[]byte("b")})
	p.eventually("the answer", func() bool { return len(p.got[2]) == 1 })
	began := time.Now()
	p.stop(2)
	p.eventually("gone", func() bool { return p.gone[1] > 0 })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("noticed after %v", took)
	}
	if _, err := p.nets[1].Call(t.Context(), 2, nil); err == nil {
		t.Error("a node that has ended answers")
	}
}

// TestHeardAddressesAreBounded: whoever says hello may give any number (invariant 9).
func TestHeardAddressesAreBounded(t *testing.T) {
	var h heard
	for i := range int32(2 * maxHeard) {
		h.set(i, "a")
	}
	h.set(1, "b")
	if len(h.of) != maxHeard || h.get(1) != "b" || h.get(2*maxHeard-1) != "" {
		t.Errorf("%d addresses", len(h.of))
	}
	if h.forget(1, "a") || !h.forget(1, "b") || h.get(1) != "" {
		t.Error("another address was forgotten")
	}
}
