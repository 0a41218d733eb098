package broker

// txnAPIs are the APIs of producers and transactions. EndTxn 5 and TxnOffsetCommit 5 are those of KIP-890's second
// part, which begins when transaction.version is finalised; it is not.
func txnAPIs() []api {
	return []api{
		{key: 22, min: 0, max: 5, handle: (*Broker).handleInitProducerID},
		{key: 24, min: 0, max: 5, handle: (*Broker).handleAddPartitionsToTxn},
		{key: 25, min: 0, max: 4, handle: (*Broker).handleAddOffsetsToTxn},
		{key: 26, min: 0, max: 4, handle: (*Broker).handleEndTxn},
		{key: 27, min: 1, max: 1, handle: (*Broker).handleWriteTxnMarkers},
		{key: 28, min: 0, max: 4, handle: (*Broker).handleTxnOffsetCommit},
		{key: 61, min: 0, max: 0, handle: (*Broker).handleDescribeProducers},
		{key: 65, min: 0, max: 0, handle: (*Broker).handleDescribeTransactions},
		{key: 66, min: 0, max: 2, handle: (*Broker).handleListTransactions},
	}
}
