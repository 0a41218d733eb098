package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
)

// coordinators hold the group and transaction coordinators.
type coordinators struct{}

func (b *Broker) startCoordinators(ctx context.Context) error { return nil }
func (b *Broker) stopCoordinators()                           {}

// groupAPIs are the APIs of consumer groups; txnAPIs those of producers and transactions.
func groupAPIs() []api { return nil }
func txnAPIs() []api   { return nil }

// checkTransaction says whether a transactional batch may be appended: the partition must be part of the
// producer's open transaction. It does not block on the network or the disk.
func (b *Broker) checkTransaction(ctx context.Context, transactionalID *string, producerID int64, epoch int16, topic string, partition int32) error {
	return refuse(kerr.CoordinatorNotAvailable, "this broker coordinates no transactions")
}
