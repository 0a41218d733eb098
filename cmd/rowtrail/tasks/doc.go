// Package tasks runs each connector and sink on exactly one of the nodes whose files name it.
//
// A task is a connector or a sink. All nodes join the consumer group __rowtrail_tasks over the topic of that name, in the log
// that the tasks use: the built-in one, or another Kafka cluster. A node runs the tasks of the partitions that it owns.
//
// Task to partition. The topic has a fixed number of partitions, and a task's name is hashed onto one of them (slot). So a task
// has the same partition on every node, whatever the order of the files, and while a change of the files goes from node to node;
// nothing has to be agreed on or stored. Two tasks that share a partition move together, which costs nothing else: the balancer
// counts tasks, not partitions. A node tells the group which tasks its file has, so a partition goes to a node that can
// run all of it, and a task that only one node knows yet runs there.
//
// Files: slot (names to partitions), place (which node gets what, pure), balancer (the same as a group balancer of the Kafka client),
// lease (how long a membership is good for, pure), member (one membership: client, heartbeats, callbacks), group (memberships one
// after the other, and what the rest of the program asks), runner (a task while its partition is here), board (what the nodes
// tell each other about tasks).
//
// One at a time. A partition is given to its next owner only after the one before has stopped its tasks and said so, or after
// its session has timed out. A node that hears no good answer to its heartbeats stops its tasks by itself, leaseTime after the
// last one was sent and so before its session ends. A process that was paused for longer finds its lease over when it goes on.
// What it does in the instant before it looks is harmless: the log refuses the writes of a connector whose transactional id was
// opened since (invariant 3), and a sink's target the commit of an older epoch (invariant 4).
//
// A member is static: its instance id is the node's number, so a node that is killed and started again takes its place at once
// instead of waiting for its former session to end. Two processes with one number fence each other; the one that is fenced
// stops its tasks and stays so, and says why.
//
// The topic is compacted and holds, by task, what the node that runs it last said of it, who asked for a restart and when, and what was
// last asked of it.
// It decides nothing: assignment is the group's alone.
package tasks
