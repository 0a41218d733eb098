package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The API keys that other code refers to.
const (
	keyProduce     = 0
	keyAPIVersions = 18
)

// handleAPIVersions says what is served. No features are finalized: transaction.version 2 would change
// how Java producers end transactions.
func (b *Broker) handleAPIVersions(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if req.Version >= 3 && (!validSoftware(req.ClientSoftwareName) || !validSoftware(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	for _, a := range b.apis {
		if a != nil {
			resp.ApiKeys = append(resp.ApiKeys, versionsOf(a))
		}
	}
	return resp, nil
}

// apiVersionsFallback answers a version that is not known with a body that every client can read: it
// names the range to try again with.
func (b *Broker) apiVersionsFallback() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = append(resp.ApiKeys, versionsOf(b.apis[keyAPIVersions]))
	return resp
}

func versionsOf(a *api) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.min, a.max
	return k
}

// validSoftware accepts letters and digits with dashes and dots between them.
func validSoftware(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}
