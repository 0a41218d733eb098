package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAPIKey is the highest API key that the table can hold.
const maxAPIKey = 92

// api is one row of the table of what is served. Only versions that are complete are advertised:
// clients use the highest they find.
type api struct {
	key, min, max int16
	// decodeMin, when above min, is the lowest version that is answered; versions below it are advertised
	// for clients that gate features on them, and refused.
	decodeMin int16
	// handle answers one request. An error closes the connection with one log line; a nil response
	// without an error sends nothing.
	handle func(b *Broker, ctx context.Context, r *request) (kmsg.Response, error)
	// stage, instead of handle, begins a request whose answer comes later: it must call done exactly
	// once, from any goroutine. Requests are staged in arrival order. done never blocks.
	stage func(b *Broker, ctx context.Context, r *request, done func(kmsg.Response, error))
}

// dataAPIs are the APIs of topics, partitions and their configuration.
func dataAPIs() []api {
	return []api{
		{key: 18, min: 0, max: 4, handle: (*Broker).handleApiVersions},
	}
}
