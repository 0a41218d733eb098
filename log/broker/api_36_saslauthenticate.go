package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/sasl"
)

// The API keys of a log-in.
const (
	keySASLHandshake    = 17
	keySASLAuthenticate = 36
)

// handleSASLHandshake (API 17) takes a mechanism. After version 0 the exchange goes on without request headers.
func (b *Broker) handleSASLHandshake(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.SASLHandshakeRequest)
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	if b.directory == nil || r.internal || r.session.loggedIn && (req.Version == 0 || r.session.used == "") {
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return resp, nil
	}
	resp.SupportedMechanisms = b.directory.Mechanisms()
	if err := b.begin(r.session, req.Mechanism); err != nil {
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		if !errors.Is(err, sasl.ErrMechanism) {
			r.hangUp = err // otherwise the client may try one that it was told of
		}
		return resp, nil
	}
	r.session.raw = req.Version == 0
	return resp, nil
}

// handleSASLAuthenticate takes one message of a log-in. A failure closes the connection once it is answered.
func (b *Broker) handleSASLAuthenticate(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.SASLAuthenticateRequest)
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	resp.SASLAuthBytes = []byte{}
	refuseWith := func(code *kerr.Error, text string) {
		resp.ErrorCode, resp.ErrorMessage = code.Code, &text
	}
	if b.directory == nil || r.internal || r.session.raw || r.session.exchange == nil && r.session.mechanism == "" {
		refuseWith(kerr.IllegalSaslState, "SaslAuthenticate without a SaslHandshake before it")
		if b.directory != nil && !r.internal {
			r.hangUp = errLogin
		}
		return resp, nil
	}
	answer, lifetime, err := b.step(ctx, r.session, req.SASLAuthBytes)
	if err != nil {
		refuseWith(kerr.SaslAuthenticationFailed, "Authentication failed: the user or the password is wrong")
		r.hangUp = err
		return resp, nil
	}
	resp.SASLAuthBytes, resp.SessionLifetimeMillis = answer, lifetime.Milliseconds()
	return resp, nil
}
