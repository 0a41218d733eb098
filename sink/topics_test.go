package sink

import (
	"maps"
	"testing"
)

// TestOwnTopicsAreNoTables: what connectors keep for themselves is not read, in whatever order their topics come to be; what is named alike and
// is a table is.
func TestOwnTopicsAreNoTables(t *testing.T) {
	shop := []string{"shop", "shop.position", "shop.schema", "shop.transaction", "shop.message", "shop.schema-history", "shop.raw", "shop.db.orders"}
	only := func(topic, prefix string) map[string]string { return map[string]string{topic: prefix} }
	for name, c := range map[string]struct {
		topics   Selection
		existing []string
		want     map[string]string
	}{
		"all of a connector":          {Selection{"*"}, shop, only("shop.db.orders", "shop")},
		"named in full":               {Selection{"shop", "shop.schema-history", "shop.raw", "shop.db.orders"}, shop, only("shop.db.orders", "shop")},
		"the first one":               {Selection{"*"}, []string{"shop", "shop.position"}, nil},
		"the history first":           {Selection{"*"}, []string{"shop", "shop.schema-history"}, nil},
		"without history":             {Selection{"*"}, []string{"shop", "shop.position", "shop.schema", "shop.transaction", "shop.db.orders"}, only("shop.db.orders", "shop")},
		"another's of that name":      {Selection{"shop"}, []string{"shop", "shop.position", "shop.schema", "shop.transaction"}, only("shop", "")},
		"another's":                   {Selection{"*"}, []string{"prices", "market.prices"}, map[string]string{"prices": "", "market.prices": ""}},
		"tables named alike":          {Selection{"*"}, []string{"shop.position", "shop.schema", "shop.transaction", "shop.db.transaction", "shop.db.position", "shop.db.raw"}, map[string]string{"shop.db.transaction": "shop", "shop.db.position": "shop", "shop.db.raw": "shop"}},
		"a prefix in another":         {Selection{"*"}, []string{"a.position", "a.schema", "a.transaction", "a.b", "a.b.position", "a.b.schema", "a.b.transaction", "a.b.db.t", "a.db.t"}, map[string]string{"a.b.db.t": "a.b", "a.db.t": "a"}},
		"another's under the prefix":  {Selection{"shop.db.orders", "shop.prices", "shop.schema"}, append([]string{"shop.prices"}, shop...), map[string]string{"shop.db.orders": "shop", "shop.prices": "shop"}},
		"what is to come of a prefix": {Selection{"shop*"}, []string{"shop.transaction", "shop.schema", "shop.message"}, nil},
	} {
		if got := makePlan(c.topics, c.existing).data; !maps.Equal(got, c.want) {
			t.Errorf("%s: reads %v, want %v", name, got, c.want)
		}
	}
}
