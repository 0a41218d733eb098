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
	if !d.node.Alive(node) {
		return nil, fmt.Errorf("node %d was not heard of lately", node)
	}
	answer, err := d.rows.Get(ctx, node, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("node %d: %s", node, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&topics); err != nil {
		return nil, fmt.Errorf("node %d: %w", node, err)
	}
	return topics, nil
}
