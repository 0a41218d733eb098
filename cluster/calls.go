package cluster

import (
	"context"
	"encoding/json"

	"github.com/rowtrail/rowtrail/cluster/peer"
)

// call is a request between nodes. One field is set.
type call struct {
	Append *appendRequest `json:"append,omitempty"`
	Status *statusRequest `json:"status,omitempty"`
	Join   *registration  `json:"join,omitempty"`
	// CanJoin asks what Join would be told, and changes nothing.
	CanJoin *registration  `json:"canJoin,omitempty"`
	Report  *reportRequest `json:"report,omitempty"`
	// Transfer asks a partition's leader to give leadership away.
	Transfer *transferRequest `json:"transfer,omitempty"`
	// Current asks the controller's leader how far the catalogue is.
	Current *currentRequest `json:"current,omitempty"`
}

type statusRequest struct{}

type callError struct {
	Error string `json:"error"`
}

// answer serves a call of another node.
func (n *Node) answer(ctx context.Context, from peer.Identity, request []byte) []byte {
	var c call
	if err := json.Unmarshal(request, &c); err != nil {
		return mustJSON(callError{"unreadable call: " + err.Error()})
	}
	switch {
	case c.Status != nil:
		return mustJSON(n.status())
	case c.Transfer != nil:
		return mustJSON(callError{errorText(n.transferHere(c.Transfer))})
	case c.Append != nil, c.Join != nil, c.CanJoin != nil, c.Report != nil, c.Current != nil:
		ctl := n.controllerOf()
		if ctl == nil {
			return mustJSON(appendAnswer{Error: "this node is starting"})
		}
		switch {
		case c.Join != nil:
			return mustJSON(n.admit(ctx, c.Join))
		case c.CanJoin != nil:
			return mustJSON(n.canAdmit(c.CanJoin))
		case c.Current != nil:
			return mustJSON(n.currentHere(ctx))
		case c.Report != nil:
			return mustJSON(report{n.Lags(true)})
		}
		return mustJSON(ctl.serve(ctx, c.Append))
	}
	return mustJSON(callError{"a call that this release does not know; upgrade it"})
}
