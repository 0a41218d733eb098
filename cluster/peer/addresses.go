package peer

import (
	"slices"
	"sync"
)

// maxHeard bounds the nodes whose addresses are kept.
const maxHeard = 1000

// heard are the addresses that nodes have said hello with. A node answers who has called it also where it does not know from elsewhere where
// that is: it joins through others, or what it knows is older than the caller's address.
type heard struct {
	mu sync.Mutex
	of map[int32]string
}

func (h *heard) set(node int32, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.of[node]; address == "" || !known && len(h.of) >= maxHeard {
		return
	}
	if h.of == nil {
		h.of = map[int32]string{}
	}
	h.of[node] = address
}

func (h *heard) get(node int32) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[node]
}

// forget drops an address where nobody listens any more. It reports whether it was there.
func (h *heard) forget(node int32, address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, known := h.of[node]; !known || at != address {
		return false
	}
	delete(h.of, node)
	return true
}

// addresses are where a node may listen, the likeliest first.
func (n *Network) addresses(node int32) []string {
	var out []string
	for _, a := range append([]string{n.heard.get(node)}, n.opts.Addresses(node)...) {
		if a != "" && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
