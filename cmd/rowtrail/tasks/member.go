package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	leaveTimeout = 2 * time.Second
	// stopWait is how long the group is kept waiting for tasks that have to end here: within a rebalance.
	stopWait = 10 * time.Second
)

var (
	errLease  = fmt.Errorf("the membership of group %s could not be renewed for %s: the tasks of this node are stopped, and another node may take them", Group, leaseTime)
	errMember = fmt.Errorf("group %s went on without this node", Group)
	errFenced = fmt.Errorf("another process took this node's place in group %s: it has the same node.id; give each node its own and restart this one", Group)
)

// member is one membership of the group, from joining to the first thing that goes wrong.
type member struct {
	group   *Node
	runners []*runner
	fail    context.CancelCauseFunc
	ctx     context.Context // of the tasks; ends with the membership

	mu    sync.Mutex
	lease *lease // nil: nothing was assigned yet
}

// attend is a member of the group until ctx ends or the membership does. The tasks have then ended.
func (g *Node) attend(ctx context.Context, runners []*runner) error {
	tasks, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	m := &member{group: g, runners: runners, fail: fail, ctx: tasks}
	client, err := kgo.NewClient(m.options()...)
	if err != nil {
		return fmt.Errorf("create client of group %s: %w", Group, err)
	}
	client.PauseFetchTopics(Topic) // what the topic holds is the board's to read

	// Heartbeats go on while the tasks end, so that nobody else begins before.
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	var beats sync.WaitGroup
	beats.Go(func() { m.beat(beating, client) })
	<-tasks.Done()
	m.end(m.runners)
	stopBeating()
	beats.Wait()
	id, _ := client.GroupMetadata()
	client.CloseAllowingRebalance()
	if ctx.Err() != nil {
		g.leave(ctx, id)
		return nil
	}
	return context.Cause(tasks)
}

func (m *member) options() []kgo.Opt {
	o := m.group.opts
	return append(append([]kgo.Opt{}, o.Client...),
		kgo.ClientID(fmt.Sprintf("rowtrail-tasks-%d", o.Node)),
		kgo.ConsumerGroup(Group),
		kgo.InstanceID(o.instance()),
		kgo.ConsumeTopics(Topic),
		kgo.Balancers(balancer{identity{o.Node, m.group.names()}}),
		kgo.SessionTimeout(sessionTimeout),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.HeartbeatInterval(beatEvery),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, parts map[string][]int32) {
			m.assigned(client, parts[Topic])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { m.revoked(parts[Topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { m.lost(parts[Topic]) }),
		kgo.WithHooks(m),
	)
}

// OnGroupManageError is the client's hook for what ended a session of the group; it joins again by itself.
func (m *member) OnGroupManageError(err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
	case errors.Is(err, kerr.FencedInstanceID):
		m.fail(errFenced)
	default:
		m.group.trouble(fmt.Errorf("join group %s: %w", Group, err))
	}
}

// on lists the tasks of some slots.
func (m *member) on(slots []int32) (out []*runner) {
	for _, r := range m.runners {
		for _, s := range slots {
			if r.slot == s {
				out = append(out, r)
			}
		}
	}
	return out
}

// assigned starts the tasks of slots that are this node's now, once the group has confirmed it: the assignment may have been
// waiting here for longer than the session.
func (m *member) assigned(client *kgo.Client, slots []int32) {
	ctx, cancel := context.WithTimeout(m.ctx, leaseTime)
	defer cancel()
	sent := time.Now()
	if err := m.heartbeat(ctx, client); err != nil {
		m.fail(fmt.Errorf("confirm the assignment of group %s: %w", Group, err))
		return
	}
	m.mu.Lock()
	if m.lease == nil {
		m.lease = newLease(sent)
	}
	holds := m.lease.renew(sent, time.Now())
	m.mu.Unlock()
	if !holds {
		m.fail(errLease)
		return
	}
	m.group.trouble(nil)
	for _, r := range m.on(slots) {
		m.group.logger.Info("task runs here", "task", r.task.Name)
		r.start(m.ctx)
	}
}

// revoked ends tasks that another node is to run. It returns when they have ended: only then the group hands them on.
func (m *member) revoked(slots []int32) {
	list := m.on(slots)
	for _, r := range list {
		if r.here() {
			m.group.logger.Info("task goes to another node", "task", r.task.Name)
		}
	}
	m.end(list)
}

// lost ends tasks that another node may run already.
func (m *member) lost(slots []int32) {
	if m.ctx.Err() == nil && len(m.on(slots)) > 0 {
		m.group.logger.Warn("group " + Group + " went on without this node: its tasks are stopped, and it joins again")
	}
	m.end(m.on(slots))
}

func (m *member) end(list []*runner) {
	ended := make([]<-chan struct{}, len(list))
	for i, r := range list {
		ended[i] = r.stop()
	}
	late := time.NewTimer(stopWait)
	defer late.Stop()
	for i, done := range ended {
		select {
		case <-done:
		case <-late.C:
			m.group.logger.Warn("task does not end in time; its successor fences it", "task", list[i].task.Name)
			return
		}
	}
}

// beat renews the lease and ends the membership when it is over. The client has heartbeats of its own, for the group; these are for
// this node, which must know when the last good answer was.
func (m *member) beat(ctx context.Context, client *kgo.Client) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		m.mu.Lock()
		held := m.lease
		m.mu.Unlock()
		if held != nil {
			m.renew(ctx, client, held)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *member) renew(ctx context.Context, client *kgo.Client, held *lease) {
	sent := time.Now()
	left := held.left(sent)
	if left <= 0 {
		m.fail(errLease)
		return
	}
	asking, cancel := context.WithTimeout(ctx, min(beatTimeout, left))
	defer cancel()
	err := m.heartbeat(asking, client)
	switch {
	case errors.Is(err, kerr.FencedInstanceID):
		m.fail(errFenced)
	case errors.Is(err, kerr.UnknownMemberID):
		m.fail(errMember)
	case err != nil: // the lease goes on until it ends
		m.group.logger.Debug("heartbeat", "group", Group, "error", err)
	case !held.renew(sent, time.Now()):
		m.fail(errLease)
	}
}

// heartbeat asks the group whether this node is a member. During a rebalance it is one.
func (m *member) heartbeat(ctx context.Context, client *kgo.Client) error {
	id, generation := client.GroupMetadata()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = Group, id, generation
	req.InstanceID = kmsg.StringPtr(m.group.opts.instance())
	resp, err := req.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if errors.Is(err, kerr.RebalanceInProgress) {
		return nil
	}
	return err
}

// leave gives the place in the group up, so that others need not wait for the session to end.
func (g *Node) leave(ctx context.Context, id string) {
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	client, err := kgo.NewClient(g.opts.Client...)
	if err != nil {
		return // the session ends by itself
	}
	defer client.Close()
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = id // without it, another process that took the place would be the one to go
	member.InstanceID = kmsg.StringPtr(g.opts.instance())
	member.Reason = kmsg.StringPtr("node stops")
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.Members = Group, []kmsg.LeaveGroupRequestMember{member}
	if _, err := req.RequestWith(ctx, client); err != nil {
		g.logger.Debug("leaving the group failed; its session will time out", "group", Group, "error", err)
	}
}
