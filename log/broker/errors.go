package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
)

// protocolErrors maps what the log and the cluster refuse to the protocol's errors. The first match wins.
//
//nolint:gochecknoglobals // immutable table
var protocolErrors = []struct {
	is   error
	code *kerr.Error
}{
	{log.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{log.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{log.ErrDuplicateSequence, kerr.DuplicateSequenceNumber},
	{log.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	{log.ErrInvalidTxnState, kerr.InvalidTxnState},
	{log.ErrFencedCoordinator, kerr.TransactionCoordinatorFenced},
	{log.ErrCorrupt, kerr.CorruptMessage},
	{log.ErrTooLarge, kerr.MessageTooLarge},
	{log.ErrDiskFull, kerr.KafkaStorageError},
	{log.ErrNotLeader, kerr.NotLeaderForPartition},
	{log.ErrClosed, kerr.NotLeaderForPartition},
	{cluster.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{cluster.ErrTopicExists, kerr.TopicAlreadyExists},
	{cluster.ErrInvalidTopic, kerr.InvalidTopicException},
	{cluster.ErrInvalidPartitions, kerr.InvalidPartitions},
	{cluster.ErrInvalidReplicationFactor, kerr.InvalidReplicationFactor},
	{cluster.ErrInvalidAssignment, kerr.InvalidReplicaAssignment},
	{cluster.ErrNoReassignment, kerr.NoReassignmentInProgress},
	{cluster.ErrUnknownNode, kerr.BrokerIDNotRegistered},
	{cluster.ErrInvalidNode, kerr.InvalidRequest},
	{cluster.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
	{cluster.ErrNotEnoughReplicasAfterAppend, kerr.NotEnoughReplicasAfterAppend},
	{cluster.ErrInvalidConfig, kerr.InvalidConfig},
	{cluster.ErrInvalidCredential, kerr.UnacceptableCredential},
	{cluster.ErrUnknownUser, kerr.ResourceNotFound},
	{cluster.ErrInvalidQuota, kerr.InvalidRequest},
	{cluster.ErrNotController, kerr.NotController},
	{cluster.ErrOverloaded, kerr.RequestTimedOut},
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// errorCode is the protocol's code for err; 0 for nil.
func errorCode(err error) int16 {
	if err == nil {
		return 0
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Code
	}
	for _, m := range protocolErrors {
		if errors.Is(err, m.is) {
			return m.code.Code
		}
	}
	return kerr.UnknownServerError.Code
}

// errorMessage is what a client is told beside the code; nil for no error.
func errorMessage(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}

// refusal is a protocol error with words of our own.
type refusal struct {
	code *kerr.Error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.code }

func refuse(code *kerr.Error, text string) error { return &refusal{code, text} }
