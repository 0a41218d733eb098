// Package fakelog is a log in memory for tests: kfake, with what keeps its answers true.
package fakelog

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Start starts a log of one broker; it ends with the test.
func Start(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(cluster.Close)
	tellAborted(cluster)
	return cluster
}

// tellAborted takes the bound off the bytes of a whole response; that of each partition stays. kfake names a partition's
// aborted transactions after it has added the partition's records, and not when the response is full by then: a read_committed
// reader would see records of aborted transactions.
func tellAborted(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		req.(*kmsg.FetchRequest).MaxBytes = math.MaxInt32
		return nil, nil, false
	})
}
