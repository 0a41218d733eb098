package broker

// txnAPIs are the APIs of producers and transactions. Clients use EndTxn 5, TxnOffsetCommit 5 and Produce 12, those of
// KIP-890's second part, because transaction.version 2 is finalized; older ones keep to KIP-98's flow. InitProducerID 6 is
// that of KIP-939, which there is not.
func txnAPIs() []api {
	return []api{
		{key: 22, min: 0, max: 5, handle: (*Broker).handleInitProducerID},
		{key: 24, min: 0, max: 5, handle: (*Broker).handleAddPartitionsToTxn},
		{key: 25, min: 0, max: 4, handle: (*Broker).handleAddOffsetsToTxn},
		{key: 26, min: 0, max: 5, handle: (*Broker).handleEndTxn},
		{key: 27, min: 1, max: 2, handle: (*Broker).handleWriteTxnMarkers},
		{key: 28, min: 0, max: 5, handle: (*Broker).handleTxnOffsetCommit},
		{key: 61, min: 0, max: 0, handle: (*Broker).handleDescribeProducers},
		{key: 65, min: 0, max: 0, handle: (*Broker).handleDescribeTransactions},
		{key: 66, min: 0, max: 2, handle: (*Broker).handleListTransactions},
	}
}
