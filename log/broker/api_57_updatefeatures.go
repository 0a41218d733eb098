package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleUpdateFeatures accepts the levels that features have. They are those of the release, on every node, so there is nothing to
// change: an upgrade comes with the next release and needs no step of its own.
func (b *Broker) handleUpdateFeatures(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.UpdateFeaturesRequest)
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	levels := map[string]feature{}
	for _, f := range features() {
		levels[f.name] = f
	}
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		f, known := levels[u.Feature]
		var err error
		switch {
		case !known:
			err = refuse(kerr.InvalidUpdateVersion, fmt.Sprintf("feature %q is not known", u.Feature))
		case u.MaxVersionLevel != f.finalized:
			err = refuse(kerr.InvalidUpdateVersion, fmt.Sprintf("feature %s is at level %d in this release; it cannot be set to %d", u.Feature, f.finalized, u.MaxVersionLevel))
		}
		// Since version 2 one feature that cannot be updated fails the whole request.
		if err != nil && req.Version >= 2 {
			resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
			return resp, nil
		}
		res := kmsg.NewUpdateFeaturesResponseResult()
		res.Feature, res.ErrorCode, res.ErrorMessage = u.Feature, errorCode(err), errorMessage(err)
		resp.Results = append(resp.Results, res)
	}
	return resp, nil
}
