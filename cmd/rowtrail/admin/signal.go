package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
)

// ErrNoSignals tells that a connector takes no signals.
var ErrNoSignals = errors.New("it takes no signals")

// Signaled is the answer to a signal that was taken.
type Signaled struct {
	Name   string   `json:"name"`
	Node   int32    `json:"node"` // that runs the connector
	ID     string   `json:"id,omitempty"`
	Type   string   `json:"type"`
	Tables []string `json:"tables"` // that it is about
}

// signal gives a connector a signal.
func (s *Server) signal(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.ContainsFunc(s.opts.Node.Connectors(), func(c connectors.Status) bool { return c.Name == name }) {
		failUnknown(w, "connector", name)
		return
	}
	var signal connectors.Signal
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, connectors.MaxSignal))
	in.DisallowUnknownFields()
	if err := in.Decode(&signal); err != nil {
		fail(w, http.StatusBadRequest, "the body is no signal: "+err.Error())
		return
	}
	node, result, err := s.opts.Signal(r.Context(), name, signal)
	switch {
	case errors.Is(err, ErrNoSignals):
		fail(w, http.StatusBadRequest, fmt.Sprintf("connector %s: %v", name, err))
	case err != nil:
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("connector %s: %v", name, err))
	case result.Reason == connectors.SignalMalformed:
		fail(w, http.StatusBadRequest, result.Error)
	case result.Reason == connectors.SignalUnknownTable:
		fail(w, http.StatusNotFound, result.Error)
	case result.Reason != "":
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("connector %s: %s", name, result.Error))
	default:
		reply(w, http.StatusOK, Signaled{Name: name, Node: node, ID: result.ID, Type: result.Type, Tables: result.Tables})
	}
}
