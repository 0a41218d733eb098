package park

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
)

// table is a parked table, as the resume point has it.
type table struct {
	ID     int64  `json:"id"` // microseconds since 1970 when it was parked
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
	// Segments of what waits: the first, and the one after the last.
	First   uint64 `json:"first"`
	Next    uint64 `json:"next"`
	Changes int64  `json:"changes"` // that wait
	Bytes   int64  `json:"bytes"`   // of all that waits
	Load    bool   `json:"load,omitempty"`
	Unpark  bool   `json:"unpark,omitempty"` // what waits is being written
}

// Tables are all parked tables of a connector, by schema.table, at a mark. They never change.
type Tables struct {
	tables map[string]table
	once   sync.Once
	json   json.RawMessage
}

// Parse reads what JSON writes; nil: no table is parked.
func Parse(b json.RawMessage) (*Tables, error) {
	if len(b) == 0 {
		return nil, nil
	}
	t := &Tables{}
	if err := json.Unmarshal(b, &t.tables); err != nil {
		return nil, fmt.Errorf("parse parked tables: %w", err)
	}
	return t, nil
}

// JSON is the form in a resume point; nil: no table is parked.
func (t *Tables) JSON() json.RawMessage {
	if t == nil || len(t.tables) == 0 {
		return nil
	}
	t.once.Do(func() { t.json, _ = json.Marshal(t.tables) }) // plain data marshals
	return t.json
}

func (t *Tables) of(collection string) (table, bool) {
	if t == nil {
		return table{}, false
	}
	p, ok := t.tables[collection]
	return p, ok
}

func (t *Tables) status() []connectors.ParkedStatus {
	if t == nil {
		return nil
	}
	list := make([]connectors.ParkedStatus, 0, len(t.tables))
	for _, name := range slices.Sorted(maps.Keys(t.tables)) {
		p := t.tables[name]
		s := connectors.ParkedStatus{
			Table: name, State: connectors.StateParked, Since: time.UnixMicro(p.ID).UTC(), Reason: p.Reason, Remedy: p.Remedy,
			Changes: p.Changes, Bytes: p.Bytes, Load: p.Load,
		}
		if p.Unpark {
			s.State = connectors.StateUnparking
		}
		list = append(list, s)
	}
	return list
}
