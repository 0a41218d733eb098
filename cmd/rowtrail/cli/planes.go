package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/sink"
)

func (a *app) connectorsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "connectors [NAME]",
		Short:   "Print the state and lag of connectors",
		Example: "  rowtrail connectors\n  rowtrail connectors shop --output json",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			list := []connectors.Status{{}}
			var err error
			if len(given) == 1 {
				err = a.ask(cmd.Context(), &list[0], "connectors", given[0])
			} else {
				err = a.ask(cmd.Context(), &list, "connectors")
			}
			switch {
			case err != nil:
				return err
			case a.json() && len(given) == 1:
				return a.printJSON(list[0])
			case a.json():
				return a.printJSON(list)
			}
			t := newTable(a.out, "NAME", "TYPE", "STATE", "POSITION", "EVENTS", "TRANSACTIONS", "LAG", "LAG TIME", "LOAD", "ERROR")
			for _, s := range list {
				t.row(s.Name, s.Type, s.State, s.Position, s.Events, s.Transactions, bytesText(s.LagBytes), secondsText(s.LagSeconds), load(s.Load), s.Error)
			}
			return t.flush()
		},
	}
	a.httpFlag(c)
	return c
}

func load(l *connectors.LoadStatus) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d tables, %d/%d rows, %s", l.TablesDone, l.Tables, l.Rows, l.RowsEstimated, l.Current)
}

func (a *app) sinksCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "sinks [NAME]",
		Short:   "Print the state and lag of sinks",
		Example: "  rowtrail sinks\n  rowtrail sinks warehouse --output json",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			list := []sink.Status{{}}
			var err error
			if len(given) == 1 {
				err = a.ask(cmd.Context(), &list[0], "sinks", given[0])
			} else {
				err = a.ask(cmd.Context(), &list, "sinks")
			}
			switch {
			case err != nil:
				return err
			case a.json() && len(given) == 1:
				return a.printJSON(list[0])
			case a.json():
				return a.printJSON(list)
			}
			t := newTable(a.out, "NAME", "TYPE", "STATE", "TOPICS", "EVENTS", "TRANSACTIONS", "LAG EVENTS", "LAG", "LAG TIME", "ERROR")
			for _, s := range list {
				problem := s.Error
				if s.Poison != nil {
					problem = fmt.Sprintf("cannot apply %s, partition %d, offset %d: %s", s.Poison.Topic, s.Poison.Partition, s.Poison.Offset, s.Poison.Reason)
				}
				t.row(s.Name, s.Type, s.State, strings.Join(s.Topics, ","), s.Events, s.Transactions, s.LagEvents, bytesText(s.LagBytes), secondsText(s.LagSeconds), problem)
			}
			return t.flush()
		},
	}
	a.httpFlag(c)
	return c
}
