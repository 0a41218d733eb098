package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
)

// maxUnparkBytes bounds the body of a request to unpark a table.
const maxUnparkBytes = 64 << 10

// Unparked is the answer to a request to unpark a table: the connector begins with it.
type Unparked struct {
	Name    string `json:"name"`
	Node    int32  `json:"node"` // that runs it
	Table   string `json:"table"`
	How     string `json:"how,omitempty"`
	Changes int64  `json:"changes"` // that waited
	Bytes   int64  `json:"bytes"`
}

// unpark has a connector unpark a table.
func (s *Server) unpark(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	u, ok := decode[connectors.Unpark](w, r, maxUnparkBytes)
	if !ok {
		return
	}
	switch u.How {
	case connectors.UnparkWrite, connectors.UnparkReload, connectors.UnparkDiscard:
	default:
		fail(w, http.StatusBadRequest, fmt.Sprintf("how: %q; use %q, or nothing, which writes what waits, or %q", u.How, connectors.UnparkReload, connectors.UnparkDiscard))
		return
	}
	list := s.opts.Node.Connectors()
	i := slices.IndexFunc(list, func(c connectors.Status) bool { return c.Name == name })
	if i < 0 {
		failUnknown(w, "connector", name)
		return
	}
	at := slices.IndexFunc(list[i].Parked, func(p connectors.ParkedStatus) bool { return p.Table == u.Table })
	if at < 0 {
		fail(w, http.StatusNotFound, fmt.Sprintf("table %q of connector %s is not parked; `rowtrail connectors %s` lists those that are", u.Table, name, name))
		return
	}
	parked := list[i].Parked[at]
	node, err := s.opts.Unpark(r.Context(), name, u)
	switch {
	case errors.Is(err, connectors.ErrNotParked):
		fail(w, http.StatusNotFound, fmt.Sprintf("connector %s: %v", name, err))
	case err != nil:
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("connector %s: %v", name, err))
	default:
		reply(w, http.StatusOK, Unparked{Name: name, Node: node, Table: u.Table, How: u.How, Changes: parked.Changes, Bytes: parked.Bytes})
	}
}
