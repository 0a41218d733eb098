package rows

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/snapshot"
	"github.com/rowtrail/rowtrail/snapshot/spread"
)

// Options of Rows.
type Options struct {
	Dir    string // of the views' database
	Node   *cluster.Node
	Logger *slog.Logger
	// Others answers other nodes for what is no row, under paths of its own; nil: nothing.
	Others http.Handler
	// Hidden tells topics that nobody may ask about.
	Hidden func(*cluster.Topic) bool
}

// Rows answer for all rows of the cluster.
type Rows struct {
	*spread.Views

	node   *cluster.Node
	local  *snapshot.Views
	server *spread.Server
	client *http.Client
	logger *slog.Logger
	hidden func(*cluster.Topic) bool
}

// Open opens the views' database and lets other nodes ask.
func Open(o Options) (*Rows, error) {
	local, err := snapshot.Open(o.Dir, snapshot.Options{Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("open views: %w; stop rowtrail and delete the directory %s to rebuild them from the log", err, o.Dir)
	}
	r := &Rows{node: o.Node, local: local, client: spread.NewClient(o.Node.DialHTTP), logger: o.Logger, hidden: o.Hidden}
	r.Views = spread.New(spread.Options{Node: o.Node.ID(), Local: local, Cluster: places{o.Node}, Client: r.client})
	mux := http.NewServeMux()
	mux.Handle("POST "+spread.Path, r.Views)
	if o.Others != nil {
		mux.Handle("/", o.Others)
	}
	r.server = spread.NewServer(mux, o.Logger)
	o.Node.ServeHTTP(r.server.ServeConn)
	return r, nil
}

// Run keeps the views up to date until ctx ends.
func (r *Rows) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.followCatalog(ctx) })
	if err := r.local.Run(ctx); err != nil && ctx.Err() == nil {
		// Invariant 8: views are folds of the log; without them the log still serves.
		r.logger.Error("views stopped", "error", err)
	}
	wg.Wait()
}

// Get asks another node for what its Others answer.
func (r *Rows) Get(ctx context.Context, node int32, path string) (*http.Response, error) {
	return spread.Get(ctx, r.client, node, path)
}

// Close lets what runs for other nodes end until ctx does, and closes the database. Run has returned, and nobody asks any more.
func (r *Rows) Close(ctx context.Context) error {
	err := r.server.Shutdown(ctx)
	r.client.CloseIdleConnections()
	if closeErr := r.local.Close(); closeErr != nil {
		return closeErr
	}
	if err != nil {
		return fmt.Errorf("answers for other nodes were cut: %w", err)
	}
	return nil
}

// places tells spread where partitions are.
type places struct{ node *cluster.Node }

func (p places) Leaders(topic string) ([]int32, bool) {
	t := p.node.Catalog().Topics[topic]
	if t == nil {
		return nil, false
	}
	leaders := make([]int32, len(t.Partitions))
	for i := range leaders {
		leaders[i], _, _ = p.node.LeaderOf(t, int32(i)) //nolint:gosec // a partition number
	}
	return leaders, true
}

func (p places) Stable(topic string, partition int32) (int64, bool) {
	r, err := p.node.Replica(topic, partition)
	if err != nil {
		return 0, false
	}
	return r.Log().Marks().LastStable, true
}

func (p places) Confirm(ctx context.Context, topic string, partition int32) error {
	r, err := p.node.Replica(topic, partition)
	if err != nil {
		return fmt.Errorf("%w: %w", err, log.ErrNotLeader)
	}
	return r.Confirm(ctx)
}
