package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Types of groups.
const (
	TypeClassic  = "classic"
	TypeConsumer = "consumer"
)

// consumerProtocol is the protocol type of consumers in classic groups, and of all consumer groups.
const consumerProtocol = "consumer"

// maxSaveBytes is how much of one change of a group goes into one batch: a large target assignment takes several.
const maxSaveBytes = 1 << 20

// saving is one write of a consumer group that is on its way.
type saving struct {
	left int
	err  error
	then []func(error)
}

// Deadline is when tick has something to do; zero: never.
func (k *kept) Deadline() time.Time {
	if k.consumer != nil {
		return k.consumer.Deadline()
	}
	return k.Group.Deadline()
}

func (s *shard) tick(k *kept, now time.Time) {
	if k.consumer == nil {
		k.Tick(now)
		return
	}
	s.save(k, k.consumer.Tick(now))
}

// idle tells whether nobody is in the group.
func (k *kept) idle() bool {
	if k.consumer != nil {
		return k.consumer.Empty()
	}
	return k.state == Empty
}

func (k *kept) count() int {
	if k.consumer != nil {
		return k.consumer.Members()
	}
	return len(k.members)
}

func (k *kept) stateName() string {
	if k.consumer != nil {
		return k.consumer.State()
	}
	return k.state.String()
}

// save writes records that the consumer group's state already holds. A part of them is a state too (see assign in package
// consumer), so they need not share a batch.
func (s *shard) save(k *kept, records []journal.Record) {
	if len(records) == 0 {
		return
	}
	op := &saving{}
	k.saving = op
	settle := func(_ int64, err error) {
		if op.err == nil {
			op.err = err
		}
		if op.left--; op.left > 0 {
			return
		}
		if k.saving == op {
			k.saving = nil
		}
		for _, f := range op.then {
			f(op.err)
		}
	}
	stage := func(part []journal.Record) {
		op.left++
		s.j.Stage(part, settle)
	}
	from, size := 0, 0
	for i, r := range records {
		n := len(r.Key) + len(r.Value)
		if i > from && size+n > maxSaveBytes {
			stage(records[from:i])
			from, size = i, 0
		}
		size += n
	}
	stage(records[from:])
}

// settled calls f when all that the group's state holds is committed (invariant 1), or is not known to be.
func (s *shard) settled(k *kept, f func(error)) {
	if k.saving == nil {
		f(nil)
		return
	}
	k.saving.then = append(k.saving.then, f)
}

// ConsumerHeartbeat handles ConsumerGroupHeartbeat. ownIDs: the request's version has members make their ids.
func (c *Coordinator) ConsumerHeartbeat(group string, r *consumer.Request, ownIDs bool, reply func(consumer.Response)) {
	if group == "" {
		reply(consumer.Response{Code: kerr.InvalidRequest.Code, Message: "GroupId can't be empty."})
		return
	}
	if refused := r.Check(ownIDs); refused != nil {
		reply(*refused)
		return
	}
	if r.MemberID == "" {
		r.MemberID = c.opts.NewID()
	}
	c.on(group, func(s *shard, code int16) {
		if code != 0 {
			reply(consumer.Response{Code: code})
			return
		}
		s.consumerHeartbeat(group, r, reply)
	})
}

func (s *shard) consumerHeartbeat(id string, r *consumer.Request, reply func(consumer.Response)) {
	k := s.get(id)
	g := (*consumer.Group)(nil)
	if k != nil {
		g = k.consumer
	}
	if g == nil {
		if r.Epoch != 0 || (k != nil && !k.idle()) {
			reply(consumer.Response{Code: kerr.GroupIDNotFound.Code, Message: "Group " + id + " is not a consumer group, or has members of the classic protocol."})
			return
		}
		g = s.newConsumer(id)
	}
	now := s.j.Now()
	resp, records := g.Heartbeat(r, s.c.opts.Topics(), now)
	if resp.Code != 0 && (k == nil || k.consumer == nil) {
		reply(resp)
		return // the group does not come to be
	}
	k = s.make(id)
	if k.consumer == nil {
		k.consumer = g
		if k.last.Key != nil {
			records = append([]journal.Record{{Key: k.last.Key}}, records...)
		}
		k.Group, k.last = newGroup(id, &s.c.opts.Limits, s, now), journal.Record{}
	}
	s.save(k, records)
	s.schedule(k)
	s.settled(k, func(err error) {
		if err != nil {
			resp = consumer.Response{Code: codeOf(err)}
		}
		reply(resp)
	})
}

// makeClassic turns a consumer group without members into a classic one.
func (s *shard) makeClassic(k *kept) int16 {
	if !k.consumer.Empty() {
		return kerr.InconsistentGroupProtocol.Code
	}
	s.save(k, k.consumer.Dissolve())
	k.consumer = nil
	return 0
}

// removeConsumer takes a member out of a consumer group, for an admin.
func (s *shard) removeConsumer(k *kept, l Leaver) int16 {
	code, records := k.consumer.Remove(l.MemberID, l.InstanceID)
	s.save(k, records)
	return code
}

// applyChange folds a record of a consumer group.
func (s *shard) applyChange(c consumer.Change) {
	k := s.make(c.Group)
	if k.consumer == nil {
		k.consumer = s.newConsumer(c.Group)
	}
	k.consumer.Apply(c)
}

// consumerMayCommit is mayCommit for a consumer group.
func (s *shard) consumerMayCommit(g *consumer.Group, r CommitRequest, codes []int16) int16 {
	txn := r.Producer != nil
	if r.Generation < 0 && g.Empty() {
		return 0 // an admin, or a consumer that assigns itself
	}
	staleEpoch := kerr.StaleMemberEpoch.Code
	switch {
	case txn && r.Generation < 0 && r.MemberID == "":
		return 0 // a producer that predates group metadata
	case txn:
		staleEpoch = kerr.IllegalGeneration.Code // all that producers know
	case !r.MemberEpochs:
		return kerr.UnsupportedVersion.Code
	}
	if _, known := g.EpochOf(r.MemberID); !known {
		return kerr.UnknownMemberID.Code
	}
	ok, stale := g.MayCommit(r.MemberID, r.Generation)
	if !ok {
		return staleEpoch
	}
	topics := s.c.opts.Topics()
	for i, o := range r.Offsets {
		t, _ := topics.ByName(o.Topic)
		if stale(consumer.TopicPartition{Topic: t.ID, Partition: o.Partition}) {
			codes[i] = staleEpoch
		}
	}
	return 0
}

// mayFetch checks the member that a fetch of offsets speaks for.
func (s *shard) mayFetch(r FetchRequest) int16 {
	if r.MemberID == "" && r.MemberEpoch < 0 {
		return 0
	}
	k := s.get(r.Group)
	if k == nil || k.consumer == nil {
		return 0 // classic members name none
	}
	switch epoch, known := k.consumer.EpochOf(r.MemberID); {
	case !known:
		return kerr.UnknownMemberID.Code
	case epoch != r.MemberEpoch:
		return kerr.StaleMemberEpoch.Code
	}
	return 0
}

// ConsumerDescribe handles ConsumerGroupDescribe for one group.
func (c *Coordinator) ConsumerDescribe(group string, reply func(code int16, d consumer.Description)) {
	c.on(group, func(s *shard, code int16) {
		k := (*kept)(nil)
		if code == 0 {
			k = s.get(group)
		}
		switch {
		case code != 0:
			reply(code, consumer.Description{Group: group})
		case k == nil || k.consumer == nil:
			reply(kerr.GroupIDNotFound.Code, consumer.Description{Group: group})
		default:
			d := k.consumer.Describe()
			s.settled(k, func(err error) { reply(codeOf(err), d) })
		}
	})
}

// ConsumerLimits are those in force for a consumer group.
func (c *Coordinator) ConsumerLimits(group string) consumer.Limits {
	return c.opts.ConsumerOf(group, c.opts.Consumer)
}

func (s *shard) newConsumer(id string) *consumer.Group {
	return consumer.New(id, func() consumer.Limits { return s.c.ConsumerLimits(id) })
}
