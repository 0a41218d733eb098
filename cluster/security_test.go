package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Credentials, quotas and the key of salts survive a restart; snapshots that were taken before a change keep what they had.
func TestSecurityIsKept(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	n := startNode(t, dir)
	id := ScramID{"alice", "SCRAM-SHA-256"}
	cred := ScramCredential{Iterations: 4096, Salt: []byte{0, 1}, StoredKey: []byte{2, 255}, ServerKey: []byte{3}}
	if err := n.AlterScram(ctx, map[ScramID]*ScramCredential{id: &cred}); err != nil {
		t.Fatal(err)
	}
	entity := QuotaEntity{User: QuotaName{QuotaNamed, "alice"}, Client: QuotaName{Is: QuotaDefault}}
	rate, other := 1000.5, 7.0
	if err := n.AlterQuota(ctx, entity, map[string]*float64{"producer_byte_rate": &rate, "consumer_byte_rate": &other}); err != nil {
		t.Fatal(err)
	}
	before := n.Catalog()
	if err := n.AlterQuota(ctx, entity, map[string]*float64{"consumer_byte_rate": nil}); err != nil {
		t.Fatal(err)
	}
	if len(before.Quotas[entity]) != 2 {
		t.Errorf("an old snapshot changed: %v", before.Quotas)
	}
	key, err := n.SaltKey(ctx)
	if err != nil || len(key) != saltKeyBytes {
		t.Fatalf("key of salts: %x, %v", key, err)
	}
	if err := n.AlterScram(ctx, map[ScramID]*ScramCredential{id: nil, {"bob", "SCRAM-SHA-256"}: nil}); !errors.Is(err, ErrUnknownUser) {
		t.Errorf("delete of a missing credential: %v", err)
	}
	n.close(t)

	n = startNode(t, dir)
	defer n.close(t)
	if d := cmp.Diff(map[ScramID]ScramCredential{id: cred}, n.Catalog().Scram); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Quotas{entity: {"producer_byte_rate": rate}}, n.Catalog().Quotas); d != "" {
		t.Error(d)
	}
	if again, err := n.SaltKey(ctx); err != nil || string(again) != string(key) {
		t.Errorf("key of salts: %x after %x, %v", again, key, err)
	}
	if err := n.AlterScram(ctx, map[ScramID]*ScramCredential{id: nil}); err != nil || len(n.Catalog().Scram) != 0 {
		t.Errorf("delete: %v, %v", err, n.Catalog().Scram)
	}
}
