package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"math"

	"github.com/rowtrail/rowtrail/log"
)

const (
	// maxScramCredentials and maxQuotas bound what the catalogue keeps of users and of client quotas.
	maxScramCredentials = 10_000
	maxQuotas           = 10_000
	// maxUserBytes bounds a user's or a client's name.
	maxUserBytes = 1024
	saltKeyBytes = 32
)

// ScramID is one user's credential of one mechanism.
type ScramID struct{ User, Mechanism string }

// ScramCredential is what a SCRAM password is checked against (RFC 5802). The password cannot be had from it.
type ScramCredential struct {
	Iterations                 int
	Salt, StoredKey, ServerKey []byte
}

// QuotaName is one half of a quota's entity: absent, the default of all names, or a name.
type QuotaName struct {
	Is   QuotaMatch
	Name string
}

// QuotaMatch says what a QuotaName stands for.
type QuotaMatch uint8

// What a QuotaName stands for.
const (
	QuotaAbsent QuotaMatch = iota
	QuotaDefault
	QuotaNamed
)

// QuotaEntity is whom a quota binds.
type QuotaEntity struct{ User, Client QuotaName }

// Quotas are values by Kafka's quota names, of each entity. They are never changed in place.
type Quotas map[QuotaEntity]map[string]float64

// securityState is the part of the catalogue about users and quotas.
type securityState struct {
	saltKey []byte // from which the salts of users without a stored credential follow
	scram   map[ScramID]ScramCredential
	quotas  Quotas

	// What the newest snapshots share; nil once the map beside it has changed.
	sharedScram  map[ScramID]ScramCredential
	sharedQuotas Quotas
}

type scramRecord struct {
	Iterations int    `json:"iterations"`
	Salt       string `json:"salt"` // these three in base64
	StoredKey  string `json:"storedKey"`
	ServerKey  string `json:"serverKey"`
}

type saltsRecord struct {
	Key string `json:"key"`
}

// quotaName in a record's key: no object for an absent half, one without a name for the default.
type quotaName struct {
	Name *string `json:"name,omitempty"`
}

type quotaRecord struct {
	Values map[string]float64 `json:"values"`
}

func newSecurityState() securityState {
	return securityState{scram: map[ScramID]ScramCredential{}, quotas: Quotas{}}
}

// snapshot shares its maps until they change: the catalogue changes far more often than they do.
func (s *securityState) snapshot() (map[ScramID]ScramCredential, Quotas) {
	if s.sharedScram == nil {
		s.sharedScram = maps.Clone(s.scram)
	}
	if s.sharedQuotas == nil {
		s.sharedQuotas = maps.Clone(s.quotas)
	}
	return s.sharedScram, s.sharedQuotas
}

func (s *securityState) applyScram(key recordKey, value []byte) error {
	id := ScramID{key.Name, key.Mechanism}
	s.sharedScram = nil
	if value == nil {
		delete(s.scram, id)
		return nil
	}
	var r scramRecord
	if err := unmarshalStrict(value, &r); err != nil {
		return err
	}
	c := ScramCredential{Iterations: r.Iterations}
	for _, f := range []struct {
		to   *[]byte
		text string
	}{{&c.Salt, r.Salt}, {&c.StoredKey, r.StoredKey}, {&c.ServerKey, r.ServerKey}} {
		b, err := base64.StdEncoding.DecodeString(f.text)
		if err != nil {
			return fmt.Errorf("a credential is not base64: %w", log.ErrCorrupt)
		}
		*f.to = b
	}
	s.scram[id] = c
	return nil
}

func (s *securityState) applySalts(value []byte) error {
	var r saltsRecord
	if err := unmarshalStrict(value, &r); err != nil {
		return err
	}
	key, err := base64.StdEncoding.DecodeString(r.Key)
	if err != nil {
		return fmt.Errorf("the key of salts is not base64: %w", log.ErrCorrupt)
	}
	s.saltKey = key
	return nil
}

func (s *securityState) applyQuota(key recordKey, value []byte) error {
	entity := QuotaEntity{User: nameOf(key.User), Client: nameOf(key.Client)}
	s.sharedQuotas = nil
	if value == nil {
		delete(s.quotas, entity)
		return nil
	}
	var r quotaRecord
	if err := unmarshalStrict(value, &r); err != nil {
		return err
	}
	s.quotas[entity] = r.Values
	return nil
}

func nameOf(n *quotaName) QuotaName {
	switch {
	case n == nil:
		return QuotaName{}
	case n.Name == nil:
		return QuotaName{Is: QuotaDefault}
	}
	return QuotaName{Is: QuotaNamed, Name: *n.Name}
}

func (n QuotaName) record() *quotaName {
	switch n.Is {
	case QuotaNamed:
		return &quotaName{Name: &n.Name}
	case QuotaDefault:
		return &quotaName{}
	default:
		return nil
	}
}

func scramKey(id ScramID) recordKey {
	return recordKey{Type: recordScram, Name: id.User, Mechanism: id.Mechanism}
}

func encodeScram(id ScramID, c ScramCredential) change {
	text := base64.StdEncoding.EncodeToString
	return encode(scramKey(id), scramRecord{
		Iterations: c.Iterations, Salt: text(c.Salt), StoredKey: text(c.StoredKey), ServerKey: text(c.ServerKey),
	})
}

// alterScram sets a credential, or deletes it when c is nil.
func (s *securityState) alterScram(id ScramID, c *ScramCredential) ([]change, error) {
	if id.User == "" || len(id.User) > maxUserBytes {
		return nil, fmt.Errorf("a user's name has 1 to %d bytes: %w", maxUserBytes, ErrInvalidCredential)
	}
	_, exists := s.scram[id]
	if c == nil {
		if !exists {
			return nil, fmt.Errorf("user %q has no %s credential: %w", id.User, id.Mechanism, ErrUnknownUser)
		}
		return []change{encode(scramKey(id), nil)}, nil
	}
	if !exists && len(s.scram) >= maxScramCredentials {
		return nil, fmt.Errorf("%d credentials are stored, the limit; delete some: %w", maxScramCredentials, ErrInvalidCredential)
	}
	return []change{encodeScram(id, *c)}, nil
}

// alterQuota changes some values of an entity; nil removes one. An entity without values is forgotten.
func (s *securityState) alterQuota(entity QuotaEntity, set map[string]*float64) ([]change, error) {
	old, exists := s.quotas[entity]
	if entity.User.Is == QuotaAbsent && entity.Client.Is == QuotaAbsent ||
		len(entity.User.Name) > maxUserBytes || len(entity.Client.Name) > maxUserBytes {
		return nil, fmt.Errorf("a quota is of a user, a client id or both, of at most %d bytes each: %w", maxUserBytes, ErrInvalidQuota)
	}
	values := maps.Clone(old)
	if values == nil {
		values = map[string]float64{}
	}
	for name, v := range set {
		switch {
		case v == nil:
			delete(values, name)
		case math.IsNaN(*v) || math.IsInf(*v, 0) || *v <= 0:
			return nil, fmt.Errorf("quota %s must be a number above 0: %w", name, ErrInvalidQuota)
		default:
			values[name] = *v
		}
	}
	key := recordKey{Type: recordQuota, User: entity.User.record(), Client: entity.Client.record()}
	switch {
	case maps.Equal(values, old):
		return nil, nil
	case len(values) == 0:
		return []change{encode(key, nil)}, nil
	case !exists && len(s.quotas) >= maxQuotas:
		return nil, fmt.Errorf("%d quotas are stored, the limit; remove some: %w", maxQuotas, ErrInvalidQuota)
	}
	return []change{encode(key, quotaRecord{values})}, nil
}

// AlterScram stores credentials, and deletes those that are nil, all or none. Errors: ErrInvalidCredential,
// ErrUnknownUser, ErrNotController.
func (n *Node) AlterScram(ctx context.Context, set map[ScramID]*ScramCredential) error {
	return n.ctl.propose(ctx, func(s *catalogState) (all []change, err error) {
		for id, c := range set {
			cs, err := s.alterScram(id, c)
			if err != nil {
				return nil, err
			}
			all = append(all, cs...)
		}
		return all, nil
	})
}

// AlterQuota changes values of an entity's quota; a nil value removes one. Errors: ErrInvalidQuota, ErrNotController.
func (n *Node) AlterQuota(ctx context.Context, entity QuotaEntity, set map[string]*float64) error {
	return n.ctl.propose(ctx, func(s *catalogState) ([]change, error) { return s.alterQuota(entity, set) })
}

// CheckQuota reports what AlterQuota would refuse now, and changes nothing.
func (n *Node) CheckQuota(entity QuotaEntity, set map[string]*float64) error {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	_, err := n.log.state.alterQuota(entity, set)
	return err
}

// SaltKey is the secret from which the salts of users without a stored credential follow, the same on every node for
// ever: a salt that changed would tell such users, and names that are nobody's, from the others.
func (n *Node) SaltKey(ctx context.Context) ([]byte, error) {
	err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) {
		if s.saltKey != nil {
			return nil, nil
		}
		key := make([]byte, saltKeyBytes)
		_, _ = rand.Read(key) // never fails: crypto/rand ends the process instead
		return []change{encode(recordKey{Type: recordSalts}, saltsRecord{base64.StdEncoding.EncodeToString(key)})}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the key of salts: %w", err)
	}
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return n.log.state.saltKey, nil
}
