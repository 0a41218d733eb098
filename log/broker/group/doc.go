// Package group coordinates consumer groups, of the classic protocol and of the consumer protocol, and keeps their offsets.
//
// Group (group.go, join.go, sync.go, member.go) is a pure state machine of one group: it is given requests and the
// time, and answers through the functions that came with them. Offsets (offsets.go) are a group's committed offsets and
// those pending in transactions. Neither knows a clock, a goroutine or a log. records.go turns both into the
// records that Kafka keeps in __consumer_offsets, and back. Coordinator (coordinator.go, commit.go, manage.go)
// owns the groups, one journal per partition of that topic. Groups of the consumer protocol are package consumer's;
// consumers.go leads requests, records and time to them, and a group without members from one protocol to the other.
//
// The package enforces invariant 1 (a commit, an assignment and a deletion are answered when their record is
// committed; a fetch of offsets answers nothing else) and invariant 8 (what a coordinator knows is the fold of
// its partition: after a restart members, generations, assignments and offsets are what the log says, and sessions
// begin anew). Invariant 9: members per group, waiting requests and metadata per offset have named bounds.
package group
