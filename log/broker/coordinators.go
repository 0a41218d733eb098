package broker

import "context"

// coordinators hold the group and transaction coordinators.
type coordinators struct{}

func (b *Broker) startCoordinators(ctx context.Context) error { return nil }
func (b *Broker) stopCoordinators()                           {}

// groupAPIs are the APIs of consumer groups; txnAPIs those of producers and transactions.
func groupAPIs() []api { return nil }
func txnAPIs() []api   { return nil }
