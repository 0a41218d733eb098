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

// feature is a version that all nodes agree on, by which clients choose how they speak.
type feature struct {
	name                string
	min, max, finalized int16
}

// features are the finalized ones. Producers that read transaction.version 2 raise their epoch with every
// transaction (KIP-890); those that do not are served as before.
func features() []feature {
	return []feature{
		{name: "group.version", min: 0, max: 1, finalized: 1}, // the consumer protocol (KIP-848)
		{name: "transaction.version", min: 0, max: 2, finalized: 2},
	}
}

// zeroMinSince is the first version whose clients can read a supported feature that begins at 0 (KAFKA-17011).
const zeroMinSince = 4

// finalizedEpoch is that of the finalized features. They are those of the release, so it does not change; clients take
// them up only from an epoch that is not negative.
const finalizedEpoch = 0

// handleAPIVersions says what is served.
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
	if req.Version >= 3 {
		resp.FinalizedFeaturesEpoch = finalizedEpoch
	}
	for _, f := range features() {
		if f.min > 0 || req.Version >= zeroMinSince {
			sf := kmsg.NewApiVersionsResponseSupportedFeature()
			sf.Name, sf.MinVersion, sf.MaxVersion = f.name, f.min, f.max
			resp.SupportedFeatures = append(resp.SupportedFeatures, sf)
		}
		ff := kmsg.NewApiVersionsResponseFinalizedFeature()
		ff.Name, ff.MinVersionLevel, ff.MaxVersionLevel = f.name, f.finalized, f.finalized
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, ff)
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
