package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// clusterDefault asks for the node's own default.
const clusterDefault = -1

// createdLine is what `topics create` prints.
type createdLine struct {
	Topic             string `json:"topic"`
	Created           bool   `json:"created"` // false: it existed, or --dry-run
	Partitions        int32  `json:"partitions"`
	ReplicationFactor int16  `json:"replicationFactor"`
}

type createFlags struct {
	partitions int32
	replicas   int16
	config     []string
	ifMissing  bool
	dryRun     bool
}

func (a *app) topicsCreateCommand() *cobra.Command {
	var f createFlags
	c := &cobra.Command{
		Use:   "create TOPIC",
		Short: "Create a topic",
		Long: `Create a topic. What is not said has the node's defaults (the log section of its file). Configuration is set by Kafka's names, which
docs/compatibility.md lists.`,
		Example: `  rowtrail topics create orders --partitions 6
  rowtrail topics create latest --config cleanup.policy=compact --config delete.retention.ms=3600000 --if-not-exists`,
		Args: args("TOPIC"),
		RunE: func(cmd *cobra.Command, given []string) error {
			config, err := parseConfig(f.config)
			switch {
			case err != nil:
				return usage(err)
			case f.partitions < 1 && f.partitions != clusterDefault:
				return usage(fmt.Errorf("--partitions %d: a topic has 1 or more", f.partitions))
			case f.replicas < 1 && f.replicas != clusterDefault:
				return usage(fmt.Errorf("--replication-factor %d: a topic has 1 or more", f.replicas))
			}
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.createTopic(ctx, adm, given[0], f, config)
			})
		},
	}
	flags := c.Flags()
	flags.Int32Var(&f.partitions, "partitions", clusterDefault, "number of partitions; -1: the node's default")
	flags.Int16Var(&f.replicas, "replication-factor", clusterDefault, "replicas of each partition; -1: the node's default")
	flags.StringArrayVar(&f.config, "config", nil, "a property of the topic, NAME=VALUE; may be repeated")
	flags.BoolVar(&f.ifMissing, "if-not-exists", false, "a topic that exists is no error")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check what would be created, and create nothing")
	a.serverFlag(c)
	a.nodeFileFlag(c)
	return c
}

func (a *app) createTopic(ctx context.Context, adm *kadm.Client, topic string, f createFlags, config map[string]*string) error {
	create := adm.CreateTopics
	if f.dryRun {
		create = adm.ValidateCreateTopics
	}
	all, err := create(ctx, f.partitions, f.replicas, config, topic)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	r := all[topic]
	line := createdLine{Topic: topic, Created: !f.dryRun, Partitions: r.NumPartitions, ReplicationFactor: r.ReplicationFactor}
	text := "created topic %s with %d partitions\n"
	switch {
	case errors.Is(r.Err, kerr.TopicAlreadyExists) && f.ifMissing:
		d, err := adm.ListTopicsWithInternal(ctx, topic)
		if err != nil {
			return fmt.Errorf("describe topic %s: %w", topic, err)
		}
		line.Created, line.Partitions, line.ReplicationFactor = false, int32(len(d[topic].Partitions)), int16(d[topic].Partitions.NumReplicas()) //nolint:gosec // small counts
		text = "topic %s exists already, with %d partitions\n"
	case errors.Is(r.Err, kerr.TopicAlreadyExists):
		return fmt.Errorf("topic %s exists already; `rowtrail topics alter` changes it", topic)
	case r.Err != nil:
		return fmt.Errorf("create topic %s: %w", topic, told(r.Err, r.ErrMessage))
	case f.dryRun:
		text = "topic %s would be created with %d partitions\n"
	}
	if a.json() {
		return a.printJSON(line)
	}
	_, err = fmt.Fprintf(a.out, text, topic, line.Partitions)
	return err
}

// told prefers what the node says in words to the code's standard text.
func told(err error, message string) error {
	if message == "" {
		return err
	}
	return errors.New(message)
}

// parseConfig reads NAME=VALUE pairs.
func parseConfig(pairs []string) (map[string]*string, error) {
	config := map[string]*string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--config %q: write NAME=VALUE, as retention.ms=604800000", pair)
		}
		if config[name] != nil {
			return nil, fmt.Errorf("--config names %s twice", name)
		}
		config[name] = &value
	}
	return config, nil
}

func (a *app) topicsDeleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "delete TOPIC",
		Short: "Delete a topic with all its records",
		Long: `Delete a topic with all its records. It is unknown at once and cannot be had back. A connector whose position topic (<topic.prefix>.position)
is deleted loads its tables again when the node is started anew.`,
		Example: "  rowtrail topics delete shop.position",
		Args:    args("TOPIC"),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				topic := given[0]
				all, err := adm.DeleteTopics(ctx, topic)
				if err != nil {
					return fmt.Errorf("delete topic %s: %w", topic, err)
				}
				switch r := all[topic]; {
				case errors.Is(r.Err, kerr.UnknownTopicOrPartition):
					return notFound("topic %q does not exist; `rowtrail topics` lists them", topic)
				case r.Err != nil:
					return fmt.Errorf("delete topic %s: %w", topic, told(r.Err, r.ErrMessage))
				}
				if a.json() {
					return a.printJSON(map[string]string{"deleted": topic})
				}
				_, err = fmt.Fprintf(a.out, "deleted topic %s\n", topic)
				return err
			})
		},
	}
	a.serverFlag(c)
	return c
}

type alterFlags struct {
	partitions int32
	config     []string
	remove     []string
	dryRun     bool
}

func (a *app) topicsAlterCommand() *cobra.Command {
	var f alterFlags
	c := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Change a topic's configuration, or add partitions",
		Long: `Change a topic's configuration, or add partitions. A property that is removed has the node's default again. Changes act at once. Partitions
are never taken away, and keys that are written after some were added may go to other partitions than before.`,
		Example: `  rowtrail topics alter orders --config retention.ms=604800000 --remove-config retention.bytes
  rowtrail topics alter orders --partitions 12`,
		Args: args("TOPIC"),
		RunE: func(cmd *cobra.Command, given []string) error {
			changes, err := f.changes()
			switch {
			case err != nil:
				return usage(err)
			case len(changes) == 0 && f.partitions == 0:
				return usage(errors.New("topics alter: say what to change: --config NAME=VALUE, --remove-config NAME or --partitions N"))
			}
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.alterTopic(ctx, adm, given[0], f, changes)
			})
		},
	}
	flags := c.Flags()
	flags.Int32Var(&f.partitions, "partitions", 0, "number of partitions that the topic is to have in all")
	flags.StringArrayVar(&f.config, "config", nil, "a property to set, NAME=VALUE; may be repeated")
	flags.StringArrayVar(&f.remove, "remove-config", nil, "a property to return to the node's default; may be repeated")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check what would be changed, and change nothing")
	a.serverFlag(c)
	a.nodeFileFlag(c)
	return c
}

func (f *alterFlags) changes() ([]kadm.AlterConfig, error) {
	set, err := parseConfig(f.config)
	if err != nil {
		return nil, err
	}
	var changes []kadm.AlterConfig
	for name, value := range set {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value})
	}
	for _, name := range f.remove {
		if set[name] != nil {
			return nil, fmt.Errorf("%s is set and removed at once", name)
		}
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	slices.SortFunc(changes, func(x, y kadm.AlterConfig) int { return strings.Compare(x.Name, y.Name) })
	if f.partitions < 0 {
		return nil, fmt.Errorf("--partitions %d: a topic has 1 or more", f.partitions)
	}
	return changes, nil
}

// alterTopic checks everything before it changes anything, so that one mistake does not leave half of a command done.
func (a *app) alterTopic(ctx context.Context, adm *kadm.Client, topic string, f alterFlags, changes []kadm.AlterConfig) error {
	d, err := adm.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return fmt.Errorf("describe topic %s: %w", topic, err)
	}
	if t, ok := d[topic]; !ok || t.Err != nil {
		return notFound("topic %q does not exist; `rowtrail topics` lists them", topic)
	}
	have := len(d[topic].Partitions)
	if f.partitions > 0 && int(f.partitions) <= have {
		return fmt.Errorf("topic %s has %d partitions; ask for more, or leave --partitions out", topic, have)
	}
	for _, dry := range []bool{true, false} {
		if !dry && f.dryRun {
			break
		}
		if err := alterConfigs(ctx, adm, topic, changes, dry); err != nil {
			return err
		}
		if f.partitions > 0 {
			if err := addPartitions(ctx, adm, topic, int(f.partitions), have, dry); err != nil {
				return err
			}
		}
	}
	if a.json() {
		return a.printJSON(map[string]any{"topic": topic, "altered": !f.dryRun})
	}
	text := "altered topic %s\n"
	if f.dryRun {
		text = "topic %s would be altered\n"
	}
	_, err = fmt.Fprintf(a.out, text, topic)
	return err
}

func alterConfigs(ctx context.Context, adm *kadm.Client, topic string, changes []kadm.AlterConfig, dry bool) error {
	if len(changes) == 0 {
		return nil
	}
	alter := adm.AlterTopicConfigs
	if dry {
		alter = adm.ValidateAlterTopicConfigs
	}
	rs, err := alter(ctx, changes, topic)
	if err != nil {
		return fmt.Errorf("alter topic %s: %w", topic, err)
	}
	for _, r := range rs {
		if r.Err != nil {
			return fmt.Errorf("alter topic %s: %w", topic, told(r.Err, r.ErrMessage))
		}
	}
	return nil
}

func addPartitions(ctx context.Context, adm *kadm.Client, topic string, want, have int, dry bool) error {
	var rs kadm.CreatePartitionsResponses
	var err error
	if dry {
		rs, err = adm.ValidateCreatePartitions(ctx, want-have, topic)
	} else {
		rs, err = adm.UpdatePartitions(ctx, want, topic)
	}
	if err != nil {
		return fmt.Errorf("add partitions to %s: %w", topic, err)
	}
	if r := rs[topic]; r.Err != nil {
		return fmt.Errorf("add partitions to %s: %w", topic, told(r.Err, r.ErrMessage))
	}
	return nil
}
