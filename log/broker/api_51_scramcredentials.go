package broker

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log/broker/sasl"
)

// scramMechanism is a mechanism by its number in the protocol; "" for others.
func scramMechanism(number int8) string {
	switch number {
	case 1:
		return sasl.ScramSHA256
	case 2:
		return sasl.ScramSHA512
	}
	return ""
}

// storedCredential looks a user up in the catalogue.
func (b *Broker) storedCredential(mechanism, user string) (sasl.Credential, bool) {
	c, ok := b.node.Catalog().Scram[cluster.ScramID{User: user, Mechanism: mechanism}]
	return sasl.Credential(c), ok
}

// handleDescribeScramCredentials (API 50) names the stored credentials of users, or of all; never keys or salts.
func (b *Broker) handleDescribeScramCredentials(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	stored := b.node.Catalog().Scram
	asked := map[string]int{}
	for i := range req.Users {
		asked[req.Users[i].Name]++
	}
	if len(req.Users) == 0 {
		for id := range stored {
			asked[id.User] = 1
		}
	}
	for _, user := range slices.Sorted(maps.Keys(asked)) {
		result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		result.User = user
		for number := int8(1); scramMechanism(number) != ""; number++ {
			if c, ok := stored[cluster.ScramID{User: user, Mechanism: scramMechanism(number)}]; ok && asked[user] == 1 {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Mechanism, info.Iterations = number, int32(c.Iterations)
				result.CredentialInfos = append(result.CredentialInfos, info)
			}
		}
		var err error
		switch {
		case asked[user] > 1:
			err = refuse(kerr.DuplicateResource, "the user is named twice in the request")
		case len(result.CredentialInfos) == 0:
			err = refuse(kerr.ResourceNotFound, "the user has no stored credential")
		}
		result.ErrorCode, result.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

// scramChange is one change of a request; a nil credential deletes.
type scramChange struct {
	id         cluster.ScramID
	credential *cluster.ScramCredential
	err        error
}

// handleAlterScramCredentials stores and deletes credentials. A user's changes are made all or none.
func (b *Broker) handleAlterScramCredentials(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	byUser := map[string][]scramChange{}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		byUser[d.Name] = append(byUser[d.Name], scramChange{id: cluster.ScramID{User: d.Name, Mechanism: scramMechanism(d.Mechanism)}})
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		change := scramChange{id: cluster.ScramID{User: u.Name, Mechanism: scramMechanism(u.Mechanism)}}
		c, err := sasl.FromSalted(change.id.Mechanism, u.SaltedPassword, u.Salt, int(u.Iterations))
		stored := cluster.ScramCredential(c)
		change.credential = &stored
		switch {
		case b.directory != nil && b.directory.Configured(u.Name):
			change.err = refuse(kerr.UnacceptableCredential, "the user is in listen.sasl.users of the node's file; change the password there")
		case err != nil:
			change.err = refuse(kerr.UnacceptableCredential, err.Error())
		}
		byUser[u.Name] = append(byUser[u.Name], change)
	}
	for _, user := range slices.Sorted(maps.Keys(byUser)) {
		result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		result.User = user
		err := b.alterScram(ctx, byUser[user])
		result.ErrorCode, result.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

func (b *Broker) alterScram(ctx context.Context, changes []scramChange) error {
	seen := map[string]bool{}
	for i := range changes {
		c := &changes[i]
		_, exists := b.node.Catalog().Scram[c.id]
		err := c.err
		switch {
		case c.id.User == "":
			err = refuse(kerr.UnacceptableCredential, "the user's name is empty")
		case c.id.Mechanism == "":
			err = refuse(kerr.UnsupportedSaslMechanism, "the mechanism is neither SCRAM-SHA-256 nor SCRAM-SHA-512")
		case seen[c.id.Mechanism]:
			err = refuse(kerr.DuplicateResource, "the user's "+c.id.Mechanism+" credential is changed twice in the request")
		case err == nil && c.credential == nil && !exists:
			err = refuse(kerr.ResourceNotFound, "the user has no stored "+c.id.Mechanism+" credential")
		}
		if err != nil {
			return err
		}
		seen[c.id.Mechanism] = true
	}
	set := map[cluster.ScramID]*cluster.ScramCredential{}
	for i := range changes {
		set[changes[i].id] = changes[i].credential
	}
	ctx, cancel := withTimeout(ctx, 0)
	defer cancel()
	defer pause(ctx)()
	return b.node.AlterScram(ctx, set)
}
