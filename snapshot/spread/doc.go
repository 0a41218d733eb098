// Package spread answers for every row of topics whose partitions are spread over nodes.
//
// Each node answers for the partitions that it has (snapshot.Views); whoever is asked asks the others for theirs and merges the answers, so that
// every node gives the answer that one node with all of the partitions would give. Who answers for a partition:
//
//   - now, a time, a position and a history: its leader, after a quorum has confirmed that it leads still, so that the answer has all that was
//     acknowledged before the question, whichever node acknowledged it;
//   - an offset: this node, where its replica has come that far for good (last stable offset), else the leader;
//   - all of these: this node's replica as it is, where one is and whoever asks has said that it may be stale.
//
// Questions go over HTTP/1.1 on connections between nodes, one request each (request), and answers come as a stream of frames that ends with a
// frame that says so: one that was cut is an error, never a shorter answer. A node that is asked by another one answers for what it has and asks
// nobody, so there are no loops; when it does not lead what it was asked for, the asker looks again who does, for a bounded time and only as long as nothing was
// told. Nothing is gathered: rows are merged as they arrive (invariant 9). What the asker cancels, ends on every node; a node that says nothing
// for stallTimeout is given up.
package spread
