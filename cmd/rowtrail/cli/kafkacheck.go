package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/daemon"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/tasks"
	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/connectors"
	connectormy "github.com/rowtrail/rowtrail/connectors/mysql"
	"github.com/rowtrail/rowtrail/sink"
)

// kafkaFindings asks the cluster that holds the log whether connectors and sinks can work with it.
func kafkaFindings(ctx context.Context, cfg *configs.Config) []finding {
	k := cfg.Log.Kafka
	c := &kafkaCheck{cfg: cfg, where: fmt.Sprintf("%s:%d", cfg.File(), cfg.Line("log.kafka"))}
	opts, err := daemon.KafkaClient(k)
	if err != nil {
		subject, problem, _ := strings.Cut(err.Error(), ": ")
		problem, remedy, _ := strings.Cut(problem, "; ")
		c.add(subject, problem, remedy)
		return c.found
	}
	client, err := kgo.NewClient(append(opts, kgo.ClientID("rowtrail-check"), kgo.DialTimeout(dialTimeout), kgo.RetryTimeout(askTimeout))...)
	if err != nil {
		c.add("log.kafka", err.Error(), "")
		return c.found
	}
	defer client.Close()
	ping, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		problem, remedy := explainKafka(err)
		c.add("brokers "+strings.Join(k.Brokers, ","), problem, remedy)
		return c.found
	}
	c.admin = kadm.NewClient(client)
	for _, check := range []func(context.Context) error{c.versions, c.topics, c.transactionalIDs, c.groups} {
		if err := check(ctx); err != nil {
			c.add("brokers "+strings.Join(k.Brokers, ","), err.Error(), "")
		}
	}
	return c.found
}

// explainKafka says why the first request to the cluster failed, and what to do.
func explainKafka(err error) (problem, remedy string) {
	if problem, remedy, ok := daemon.ExplainKafka(err); ok {
		return problem, remedy
	}
	return "no broker answers: " + err.Error(), "correct log.kafka.brokers, or start the cluster"
}

type kafkaCheck struct {
	cfg   *configs.Config
	where string
	admin *kadm.Client
	found []finding
}

func (c *kafkaCheck) add(subject, problem, remedy string) {
	c.found = append(c.found, finding{c.where, connectors.LevelError, subject, problem, remedy})
}

// versions: what a connector and a group of nodes need of every broker; all of it is in Kafka 2.5.
func (c *kafkaCheck) versions(ctx context.Context) error {
	all, err := c.admin.ApiVersions(ctx)
	if err != nil {
		return fmt.Errorf("ask for versions: %w", err)
	}
	for _, b := range all.Sorted() {
		if b.Err != nil {
			c.add(fmt.Sprintf("broker %d", b.NodeID), fmt.Sprintf("does not answer: %v", b.Err), "start it, or make its advertised listener reachable from here")
			continue
		}
		for _, need := range []struct {
			key  kmsg.Key
			min  int16
			what string
		}{
			{kmsg.InitProducerID, 3, "transactions whose producer can be fenced (KIP-360)"},
			{kmsg.EndTxn, 1, "transactions"},
			{kmsg.TxnOffsetCommit, 3, "fencing of groups in transactions (KIP-447)"},
			{kmsg.JoinGroup, 5, "static members of groups (KIP-345)"},
			{kmsg.CreateTopics, 4, "default numbers of partitions and replicas (KIP-464)"},
		} {
			if _, newest, ok := b.KeyVersions(need.key.Int16()); !ok || newest < need.min {
				c.add(fmt.Sprintf("broker %d", b.NodeID), fmt.Sprintf("lacks %s: %s version %d", need.what, need.key.Name(), need.min), "use Apache Kafka 2.5 or later, or a broker that has it")
			}
		}
	}
	return nil
}

// topics: those that nodes and connectors make for themselves exist or can be made, and may be read and written.
func (c *kafkaCheck) topics(ctx context.Context) error {
	own := []string{tasks.Topic}
	for _, conn := range c.cfg.Connectors {
		if parsed := settingsOf(conn); parsed != nil {
			own = append(own, parsed.Prefix+".position", parsed.Prefix+".transaction", parsed.Prefix+".schema", parsed.Prefix+".raw")
		}
		if parsed, ok := conn.Parsed.(*connectormy.Config); ok {
			own = append(own, parsed.HistoryTopic())
		}
	}
	meta, err := c.admin.Metadata(kadm.WithAuthorizedOps(ctx))
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var missing []string
	for _, topic := range own {
		d, ok := meta.Topics[topic]
		if !ok {
			missing = append(missing, topic)
			continue
		}
		c.may("topic "+topic, d.AuthorizedOperations, kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	}
	for _, s := range c.cfg.Sinks {
		for _, d := range meta.Topics.Sorted() {
			if sink.Selection(s.Topics).Wants(d.Topic) && !slices.Contains(own, d.Topic) {
				c.may("topic "+d.Topic, d.AuthorizedOperations, kadm.OpRead, kadm.OpDescribe)
			}
		}
	}
	return c.creatable(ctx, missing)
}

// creatable asks without creating.
func (c *kafkaCheck) creatable(ctx context.Context, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	replication := int16(c.cfg.Log.Kafka.Replication) //nolint:gosec // checked when it was read
	compact := "compact"
	created, err := c.admin.ValidateCreateTopics(ctx, 1, replication, map[string]*string{"cleanup.policy": &compact}, topics...)
	if err != nil {
		return fmt.Errorf("ask whether topics can be created: %w", err)
	}
	for _, t := range created.Sorted() {
		byHand := "create it: one partition, cleanup.policy=compact"
		if t.Topic == tasks.Topic {
			byHand = fmt.Sprintf("create it: %d partitions, cleanup.policy=compact", tasks.Slots)
		}
		switch {
		case t.Err == nil, errors.Is(t.Err, kerr.TopicAlreadyExists):
		case errors.Is(t.Err, kerr.TopicAuthorizationFailed), errors.Is(t.Err, kerr.ClusterAuthorizationFailed):
			c.add("topic "+t.Topic, "is missing, and this user may not create it", "allow CREATE, READ, WRITE, DESCRIBE and DESCRIBE_CONFIGS on topics that begin so, or "+byHand)
		case errors.Is(t.Err, kerr.InvalidReplicationFactor):
			c.add("topic "+t.Topic, fmt.Sprintf("cannot be created: %v %s", t.Err, t.ErrMessage), "lower log.kafka.replication.factor to the number of brokers or less")
		default:
			c.add("topic "+t.Topic, fmt.Sprintf("cannot be created: %v %s", t.Err, t.ErrMessage), "change what the cluster does not accept, or "+byHand)
		}
	}
	return nil
}

// may reports operations that are not allowed. A cluster that does not tell allows none that can be looked at.
func (c *kafkaCheck) may(subject string, allowed []kadm.ACLOperation, needed ...kadm.ACLOperation) {
	if len(allowed) == 0 {
		return
	}
	var lacking []string
	for _, op := range needed {
		if !slices.Contains(allowed, op) {
			lacking = append(lacking, strings.ToUpper(op.String()))
		}
	}
	if len(lacking) > 0 {
		what := strings.Join(lacking, ", ")
		c.add(subject, "this user lacks "+what, "allow "+what+" on it")
	}
}

// transactionalIDs: a connector's may be used. Asking for its coordinator needs DESCRIBE, which WRITE has in it.
func (c *kafkaCheck) transactionalIDs(ctx context.Context) error {
	var ids []string
	for _, conn := range c.cfg.Connectors {
		ids = append(ids, "rowtrail-connector-"+conn.Name)
	}
	if len(ids) == 0 {
		return nil
	}
	for _, r := range c.admin.FindTxnCoordinators(ctx, ids...).Sorted() {
		switch {
		case r.Err == nil:
		case errors.Is(r.Err, kerr.TransactionalIDAuthorizationFailed):
			c.add("transactional id "+r.Name, "this user may not use it", "allow WRITE and DESCRIBE on transactional ids that begin with rowtrail-connector-")
		default:
			c.add("transactional id "+r.Name, fmt.Sprintf("has no coordinator: %v", r.Err), "look at the cluster's topic __transaction_state")
		}
	}
	return nil
}

// groups: that of the nodes and those of the sinks may be joined.
func (c *kafkaCheck) groups(ctx context.Context) error {
	names := []string{tasks.Group}
	for _, s := range c.cfg.Sinks {
		names = append(names, "rowtrail-sink-"+s.Name)
	}
	described, err := c.admin.DescribeGroups(ctx, names...)
	switch {
	case err == nil:
	case !errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("describe groups: %w", err)
	default:
		c.add("groups "+strings.Join(names, ", "), "this user may not look at them", "allow READ and DESCRIBE on groups "+tasks.Group+" and those that begin with rowtrail-sink-")
	}
	for _, g := range described.Sorted() {
		switch {
		case errors.Is(g.Err, kerr.GroupAuthorizationFailed):
			c.add("group "+g.Group, "this user may not join it", "allow READ and DESCRIBE on it")
		case g.Err == nil:
			c.may("group "+g.Group, g.AuthorizedOperations, kadm.OpRead)
		}
	}
	return nil
}
