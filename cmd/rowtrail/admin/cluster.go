package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
)

func (s *Server) cluster(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, s.opts.Cluster.Overview(r.Context()))
}

const (
	maxChangeBytes = 1 << 20
	changeTimeout  = 15 * time.Second // for a change to be decided; what it takes goes on behind it
)

// DrainRequest is the body of POST /v1/cluster/drain.
type DrainRequest struct {
	Node int32 `json:"node"`
	On   bool  `json:"on"`
}

// RemoveRequest is the body of POST /v1/cluster/remove.
type RemoveRequest struct {
	Node int32 `json:"node"`
}

// ReassignRequest is the body of POST /v1/cluster/reassign. Without nodes the partition's move is cancelled.
type ReassignRequest struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Nodes     []int32 `json:"nodes,omitempty"`
}

// change serves an operation. There is no authentication, so it is for those on this machine alone; and it takes a body of a type that a page in
// their browser cannot send.
func change[T any](do func(*http.Request, T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) {
			fail(w, http.StatusForbidden, "the cluster is changed from the machine of a node alone: run `rowtrail cluster` there, or use a Kafka client's tools")
			return
		}
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
			fail(w, http.StatusUnsupportedMediaType, "send JSON, with the header Content-Type: application/json")
			return
		}
		body, ok := decode[T](w, r, maxChangeBytes)
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
		defer cancel()
		err := do(r.WithContext(ctx), body)
		switch {
		case errors.Is(err, cluster.ErrNotController):
			fail(w, http.StatusServiceUnavailable, "no node leads the controller's log: a majority of the nodes that vote has to be there; `rowtrail cluster status` shows them")
			return
		case err != nil:
			fail(w, statusOf(err), err.Error())
			return
		}
		reply(w, http.StatusOK, struct{}{})
	}
}

// decode reads a request's body of at most limit bytes; where that is not what it has to be, it answers.
func decode[T any](w http.ResponseWriter, r *http.Request, limit int64) (body T, ok bool) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		fail(w, http.StatusBadRequest, fmt.Sprintf("the request's body is not what this endpoint takes: %v", err))
		return body, false
	}
	return body, true
}

// fromHere reports that a request was made on this machine.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, cluster.ErrUnknownNode), errors.Is(err, cluster.ErrUnknownTopic), errors.Is(err, cluster.ErrNoReassignment):
		return http.StatusNotFound
	case errors.Is(err, cluster.ErrInvalidNode), errors.Is(err, cluster.ErrInvalidAssignment), errors.Is(err, cluster.ErrInvalidReplicationFactor):
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

func (s *Server) drain(r *http.Request, b DrainRequest) error {
	return s.opts.Cluster.Drain(r.Context(), b.Node, b.On)
}

func (s *Server) remove(r *http.Request, b RemoveRequest) error {
	return s.opts.Cluster.RemoveNode(r.Context(), b.Node)
}

func (s *Server) reassign(r *http.Request, b ReassignRequest) error {
	return s.opts.Cluster.Reassign(r.Context(), b.Topic, b.Partition, b.Nodes)
}
