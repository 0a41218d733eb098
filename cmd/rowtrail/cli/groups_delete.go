package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *app) groupsDeleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "delete GROUP",
		Short:   "Delete a group that has no members, with its committed offsets",
		Example: "  rowtrail groups delete billing",
		Args:    args("GROUP"),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				_, err := adm.DeleteGroup(ctx, given[0])
				switch {
				case errors.Is(err, kerr.GroupIDNotFound):
					return notFound("group %q does not exist; `rowtrail groups` lists them", given[0])
				case errors.Is(err, kerr.NonEmptyGroup):
					return fmt.Errorf("group %s is in use: stop its members, and end transactions that commit its offsets", given[0])
				case err != nil:
					return fmt.Errorf("delete group %s: %w", given[0], err)
				}
				if a.json() {
					return a.printJSON(map[string]string{"deleted": given[0]})
				}
				_, err = fmt.Fprintf(a.out, "deleted group %s\n", given[0])
				return err
			})
		},
	}
	a.serverFlag(c)
	return c
}

// deletedLine is one partition of `groups delete-offsets`.
type deletedLine struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Error     string `json:"error,omitempty"`
}

func (a *app) groupsDeleteOffsetsCommand() *cobra.Command {
	var topics []string
	c := &cobra.Command{
		Use:   "delete-offsets GROUP --topic TOPIC[:PARTITION,...]",
		Short: "Delete committed offsets of topics that no member of the group reads",
		Example: `  rowtrail groups delete-offsets billing --topic shop.public.orders
  rowtrail groups delete-offsets billing --topic shop.public.orders:0,2 --topic shop.public.customers`,
		Args: args("GROUP"),
		RunE: func(cmd *cobra.Command, given []string) error {
			wanted := map[string][]int32{}
			for _, text := range topics {
				topic, partitions, err := parseTopicPartitions(text)
				if err != nil {
					return usage(err)
				}
				wanted[topic] = partitions
			}
			if len(wanted) == 0 {
				return usage(errors.New("groups delete-offsets: say which: --topic TOPIC[:PARTITION,...]"))
			}
			return a.administer(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.deleteOffsets(ctx, adm, given[0], wanted)
			})
		},
	}
	c.Flags().StringArrayVar(&topics, "topic", nil, "a topic, or some of its partitions (orders:0,2); may be repeated")
	a.serverFlag(c)
	return c
}

func (a *app) deleteOffsets(ctx context.Context, adm *kadm.Client, group string, wanted map[string][]int32) error {
	set, err := existing(ctx, adm, wanted, false)
	if err != nil {
		return err
	}
	deleted, err := adm.DeleteOffsets(ctx, group, set)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return notFound("group %q does not exist; `rowtrail groups` lists them", group)
	case errors.Is(err, kerr.NonEmptyGroup):
		return fmt.Errorf("group %s has members; stop them first", group)
	case err != nil:
		return fmt.Errorf("delete offsets of %s: %w", group, err)
	}
	lines, failed := []deletedLine{}, 0
	for _, tp := range set.Sorted() {
		for _, p := range tp.Partitions {
			line := deletedLine{Topic: tp.Topic, Partition: p}
			switch err, _ := deleted.Lookup(tp.Topic, p); {
			case errors.Is(err, kerr.GroupSubscribedToTopic):
				line.Error = "members of the group read the topic; stop them first"
			case err != nil:
				line.Error = err.Error()
			}
			if line.Error != "" {
				failed++
			}
			lines = append(lines, line)
		}
	}
	if a.json() {
		err = a.printJSON(map[string]any{"group": group, "offsets": lines})
	} else {
		t := newTable(a.out, "TOPIC", "PARTITION", "ERROR")
		for _, l := range lines {
			t.row(l.Topic, l.Partition, l.Error)
		}
		err = t.flush()
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d offsets were not deleted", failed, len(lines))
	}
	return err
}
