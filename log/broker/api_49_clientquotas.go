package broker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log/broker/quota"
)

// The kinds of entities that quotas are kept of.
const (
	entityUser   = "user"
	entityClient = "client-id"
)

// handleDescribeClientQuotas (API 48) lists the quotas of the entities that match a filter.
func (b *Broker) handleDescribeClientQuotas(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeClientQuotasRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	filter, err := quotaFilterOf(req)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
		return resp, nil
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	quotas := b.node.Catalog().Quotas
	for _, e := range slices.SortedFunc(maps.Keys(quotas), compareEntities) {
		if !filter.matches(e) {
			continue
		}
		entry := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, half := range halves(e) {
			part := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			part.Type, part.Name = half.kind, half.name
			entry.Entity = append(entry.Entity, part)
		}
		for _, name := range slices.Sorted(maps.Keys(quotas[e])) {
			v := kmsg.NewDescribeClientQuotasResponseEntryValue()
			v.Key, v.Value = name, quotas[e][name]
			entry.Values = append(entry.Values, v)
		}
		resp.Entries = append(resp.Entries, entry)
	}
	return resp, nil
}

type entityHalf struct {
	kind string
	name *string // nil: the default
}

func halves(e cluster.QuotaEntity) (out []entityHalf) {
	for _, h := range []struct {
		kind string
		name cluster.QuotaName
	}{{entityUser, e.User}, {entityClient, e.Client}} {
		switch h.name.Is {
		case cluster.QuotaNamed:
			out = append(out, entityHalf{h.kind, &h.name.Name})
		case cluster.QuotaDefault:
			out = append(out, entityHalf{h.kind, nil})
		case cluster.QuotaAbsent:
		}
	}
	return out
}

func compareEntities(x, y cluster.QuotaEntity) int {
	text := func(e cluster.QuotaEntity) string {
		return fmt.Sprintf("%d%s\x00%d%s", e.User.Is, e.User.Name, e.Client.Is, e.Client.Name)
	}
	return strings.Compare(text(x), text(y))
}

// quotaFilter is what each half of an entity must be; nil: anything, or with strict nothing.
type quotaFilter struct {
	user, client func(cluster.QuotaName) bool
}

func quotaFilterOf(req *kmsg.DescribeClientQuotasRequest) (f quotaFilter, err error) {
	for i := range req.Components {
		c := &req.Components[i]
		var half *func(cluster.QuotaName) bool
		switch c.EntityType {
		case entityUser:
			half = &f.user
		case entityClient:
			half = &f.client
		default:
			return f, unknownEntity(c.EntityType)
		}
		if *half != nil {
			return f, refuse(kerr.InvalidRequest, "entity type "+c.EntityType+" is named twice in the filter")
		}
		switch c.MatchType {
		case kmsg.QuotasMatchTypeExact:
			if c.Match == nil {
				return f, refuse(kerr.InvalidRequest, "an exact match of a "+c.EntityType+" names it")
			}
			want := cluster.QuotaName{Is: cluster.QuotaNamed, Name: *c.Match}
			*half = func(n cluster.QuotaName) bool { return n == want }
		case kmsg.QuotasMatchTypeDefault:
			*half = func(n cluster.QuotaName) bool { return n.Is == cluster.QuotaDefault }
		case kmsg.QuotasMatchTypeAny:
			*half = func(n cluster.QuotaName) bool { return n.Is != cluster.QuotaAbsent }
		default:
			return f, refuse(kerr.InvalidRequest, fmt.Sprintf("match type %d is not known", c.MatchType))
		}
	}
	rest := func(n cluster.QuotaName) bool { return !req.Strict || n.Is == cluster.QuotaAbsent }
	if len(req.Components) == 0 {
		rest = func(cluster.QuotaName) bool { return true }
	}
	if f.user == nil {
		f.user = rest
	}
	if f.client == nil {
		f.client = rest
	}
	return f, nil
}

func (f quotaFilter) matches(e cluster.QuotaEntity) bool { return f.user(e.User) && f.client(e.Client) }

func unknownEntity(kind string) error {
	if kind == "ip" {
		return refuse(kerr.UnsupportedVersion, "quotas of an ip are not kept here; listen.max_connections_per_ip of the node's file bounds its connections")
	}
	return refuse(kerr.InvalidRequest, fmt.Sprintf("entity type %q is not known; use user, client-id or both", kind))
}

// handleAlterClientQuotas changes quotas; each entity's changes are made all or none.
func (b *Broker) handleAlterClientQuotas(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterClientQuotasRequest)
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	ctx, cancel := withTimeout(ctx, 0)
	defer cancel()
	for i := range req.Entries {
		re := &req.Entries[i]
		entry := kmsg.NewAlterClientQuotasResponseEntry()
		for j := range re.Entity {
			part := kmsg.NewAlterClientQuotasResponseEntryEntity()
			part.Type, part.Name = re.Entity[j].Type, re.Entity[j].Name
			entry.Entity = append(entry.Entity, part)
		}
		entity, set, err := quotaChange(re)
		switch {
		case err != nil:
		case req.ValidateOnly:
			err = b.node.CheckQuota(entity, set)
		default:
			resume := pause(ctx)
			err = b.node.AlterQuota(ctx, entity, set)
			resume()
		}
		entry.ErrorCode, entry.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Entries = append(resp.Entries, entry)
	}
	return resp, nil
}

func quotaChange(re *kmsg.AlterClientQuotasRequestEntry) (e cluster.QuotaEntity, set map[string]*float64, err error) {
	for i := range re.Entity {
		part := &re.Entity[i]
		var half *cluster.QuotaName
		switch part.Type {
		case entityUser:
			half = &e.User
		case entityClient:
			half = &e.Client
		default:
			return e, nil, unknownEntity(part.Type)
		}
		if half.Is != cluster.QuotaAbsent {
			return e, nil, refuse(kerr.InvalidRequest, "entity type "+part.Type+" is named twice")
		}
		if *half = (cluster.QuotaName{Is: cluster.QuotaDefault}); part.Name != nil {
			*half = cluster.QuotaName{Is: cluster.QuotaNamed, Name: *part.Name}
		}
	}
	set = map[string]*float64{}
	for i := range re.Ops {
		op := &re.Ops[i]
		if _, twice := set[op.Key]; twice {
			return e, nil, refuse(kerr.InvalidRequest, "quota "+op.Key+" is changed twice")
		}
		if !slices.Contains(quota.Names(), op.Key) {
			if op.Key == "connection_creation_rate" {
				return e, nil, refuse(kerr.UnsupportedVersion, "quota "+op.Key+" is not kept here; the quotas are "+strings.Join(quota.Names(), ", "))
			}
			return e, nil, refuse(kerr.InvalidRequest, fmt.Sprintf("quota %q is not known; the quotas are %s", op.Key, strings.Join(quota.Names(), ", ")))
		}
		set[op.Key] = nil
		if op.Remove {
			continue
		}
		if strings.HasSuffix(op.Key, "_byte_rate") && op.Value != math.Trunc(op.Value) {
			return e, nil, refuse(kerr.InvalidRequest, "quota "+op.Key+" must be a whole number")
		}
		set[op.Key] = &op.Value
	}
	return e, set, nil
}
