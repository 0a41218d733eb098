package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
)

// parkedNode is a node whose connector has a parked table.
type parkedNode struct{ fakeNode }

func (parkedNode) Connectors() []connectors.Status {
	return []connectors.Status{{Name: "shop", Type: "postgres", Node: 1, Here: true, State: connectors.StateStreaming, Parked: []connectors.ParkedStatus{{
		Table: "public.t", State: connectors.StateParked, Since: time.Unix(0, 0).UTC(), Reason: "a value", Remedy: "a setting", Changes: 3, Bytes: 40,
	}}}}
}

func TestUnpark(t *testing.T) {
	var asked []string
	base := serve(t, Options{Node: parkedNode{}, Unpark: func(_ context.Context, name string, u connectors.Unpark) (int32, error) {
		asked = append(asked, name+" "+u.Table+" "+u.How)
		switch u.How {
		case connectors.UnparkReload:
			return 0, errors.New("the connector does not stream now")
		case connectors.UnparkDiscard:
			return 0, fmt.Errorf("table %s %w", u.Table, connectors.ErrNotParked)
		}
		return 2, nil
	}})
	for _, c := range []struct {
		path, body, site string
		status           int
		want             string
	}{
		{"/v1/connectors/shop/unpark", `{"table":"public.t"}`, "", 200, `{"name":"shop","node":2,"table":"public.t","changes":3,"bytes":40}`},
		{"/v1/connectors/shop/unpark", `{"table":"public.t","how":"reload"}`, "", 503, `{"error":"connector shop: the connector does not stream now"}`},
		{"/v1/connectors/shop/unpark", `{"table":"public.t","how":"discard"}`, "", 404, `{"error":"connector shop: table public.t is not parked"}`},
		{"/v1/connectors/shop/unpark", `{"table":"public.u"}`, "", 404, ""},
		{"/v1/connectors/shop/unpark", `{"table":"public.t","how":"skip"}`, "", 400, ""},
		{"/v1/connectors/shop/unpark", `{"tables":"public.t"}`, "", 400, ""},
		{"/v1/connectors/nope/unpark", `{"table":"public.t"}`, "", 404, ""},
		{"/v1/connectors/shop/unpark", `{"table":"public.t"}`, "cross-site", 403, ""},
	} {
		if status, got := post(t, base+c.path, c.site, c.body); status != c.status || c.want != "" && got != c.want {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, got)
		}
	}
	if got := strings.Join(asked, ", "); got != "shop public.t , shop public.t reload, shop public.t discard" {
		t.Errorf("asked: %s", got)
	}
	if status, body := get(t, base+"/readyz"); status != 200 || !strings.Contains(body, "table public.t is parked: a value") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := get(t, base+"/metrics"); !strings.Contains(body, `rowtrail_connector_parked_tables{connector="shop"} 1`) ||
		!strings.Contains(body, `rowtrail_connector_parked_changes{connector="shop"} 3`) || !strings.Contains(body, `rowtrail_connector_parked_bytes{connector="shop"} 40`) {
		t.Error(body)
	}
}
