package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/connectors"
)

// othersTimeout bounds what the other nodes may take to say how they have a topic.
const othersTimeout = 2 * time.Second

// others asks all other nodes, at once.
func (d *Daemon) others(ctx context.Context, topic string) (list []admin.NodeTopics, missing []int32) {
	ctx, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	path := admin.TopicsPath + "?topic=" + url.QueryEscape(topic)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, n := range d.node.Catalog().Nodes {
		if n.ID == d.node.ID() {
			continue
		}
		wg.Go(func() {
			topics, err := d.topicsOf(ctx, n.ID, path)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				d.logger.Debug("a node did not say how it has topics", "node", n.ID, "error", err)
				missing = append(missing, n.ID)
				return
			}
			list = append(list, admin.NodeTopics{Node: n.ID, Topics: topics})
		})
	}
	wg.Wait()
	return list, missing
}

func (d *Daemon) topicsOf(ctx context.Context, node int32, path string) (topics []admin.Topic, err error) {
	err = d.ask(ctx, node, path, &topics)
	return topics, err
}

// position asks a node how far its connector is.
func (d *Daemon) position(ctx context.Context, node int32, connector string) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	var list []connectors.Status
	if err := d.ask(ctx, node, admin.ConnectorsPath, &list); err != nil {
		d.logger.Debug("a node did not say how far its connector is", "node", node, "connector", connector, "error", err)
		return "", false
	}
	for _, c := range list {
		if c.Name == connector && c.Here {
			return c.Position, true
		}
	}
	return "", false
}

// ask reads what another node answers into answer.
func (d *Daemon) ask(ctx context.Context, node int32, path string, answer any) error {
	if !d.node.Alive(node) {
		return fmt.Errorf("node %d was not heard of lately", node)
	}
	r, err := d.rows.Get(ctx, node, path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("node %d: %s", node, r.Status)
	}
	if err := json.NewDecoder(r.Body).Decode(answer); err != nil {
		return fmt.Errorf("node %d: %w", node, err)
	}
	return nil
}
