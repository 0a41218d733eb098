package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/sink"
)

func (a *app) connectorsCommand() *cobra.Command {
	c := statusCommand(a, "connector", "shop",
		[]string{"NAME", "TYPE", "NODE", "STATE", "POSITION", "EVENTS", "TRANSACTIONS", "LAG", "LAG EVENTS", "LAG TIME", "LOAD", "ERROR"},
		func(s connectors.Status) []any {
			return []any{s.Name, s.Type, nodeText(s.Node, s.Here), s.State, s.Position, s.Events, s.Transactions, bytesText(s.LagBytes), s.LagEvents, secondsText(s.LagSeconds),
				load(s.Load), trouble(s)}
		}, a.printParked)
	c.AddCommand(a.signalCommand(), a.unparkCommand())
	return c
}

// nodeText is where a connector or sink runs, as the node that is asked sees it.
func nodeText(node int32, here bool) string {
	switch {
	case here:
		return fmt.Sprintf("%d (here)", node)
	case node > 0:
		return fmt.Sprint(node)
	}
	return "-"
}

// trouble is why a connector does not go on or, while it does, what of it needs a person.
func trouble(s connectors.Status) string {
	var list []string
	if len(s.Parked) > 0 {
		list = append(list, fmt.Sprintf("%d parked tables", len(s.Parked)))
	}
	if len(s.Warnings) > 0 {
		list = append(list, "warning: "+strings.Join(s.Warnings, "; "))
	}
	if s.Error != "" || len(list) == 0 {
		return s.Error
	}
	return strings.Join(list, "; ")
}

func load(l *connectors.LoadStatus) string {
	if l == nil {
		return ""
	}
	text := fmt.Sprintf("%d/%d tables, %d/%d rows, %s", l.TablesDone, l.Tables, l.Rows, l.RowsEstimated, l.Current)
	if l.Paused {
		text += " (paused)"
	}
	return text
}

func (a *app) sinksCommand() *cobra.Command {
	return statusCommand(a, "sink", "warehouse",
		[]string{"NAME", "TYPE", "NODE", "STATE", "TOPICS", "EVENTS", "TRANSACTIONS", "LAG", "LAG EVENTS", "LAG TIME", "ERROR"},
		func(s sink.Status) []any {
			return []any{s.Name, s.Type, nodeText(s.Node, s.Here), s.State, strings.Join(s.Topics, ","), s.Events, s.Transactions, bytesText(s.LagBytes), s.LagEvents,
				secondsText(s.LagSeconds), s.Error}
		}, func([]sink.Status) error { return nil })
}

// statusCommand lists the connectors or the sinks, or prints one of them; more prints what does not go into a row.
func statusCommand[S any](a *app, role, example string, head []string, row func(S) []any, more func([]S) error) *cobra.Command {
	c := &cobra.Command{
		Use:     role + "s [NAME]",
		Short:   "Print the state and lag of " + role + "s, and the node that runs each",
		Example: fmt.Sprintf("  rowtrail %ss\n  rowtrail %ss %s --output json", role, role, example),
		Args:    args("[NAME]"),
		RunE: func(cmd *cobra.Command, given []string) error {
			list := make([]S, 1)
			var err error
			if len(given) == 1 {
				err = a.ask(cmd.Context(), &list[0], role+"s", given[0])
			} else {
				err = a.ask(cmd.Context(), &list, role+"s")
			}
			switch {
			case err != nil:
				return err
			case a.json() && len(given) == 1:
				return a.printJSON(list[0])
			case a.json():
				return a.printJSON(list)
			}
			t := newTable(a.out, head...)
			for _, s := range list {
				t.row(row(s)...)
			}
			if err := t.flush(); err != nil {
				return err
			}
			return more(list)
		},
	}
	a.httpFlag(c)
	c.AddCommand(a.restartCommand(role, example))
	return c
}

func (a *app) restartCommand(role, example string) *cobra.Command {
	c := &cobra.Command{
		Use:   "restart NAME",
		Short: "Start a " + role + " anew, on whichever node runs it",
		Long: fmt.Sprintf(`Start a %[1]s anew, on whichever node runs it. It goes on where it stands; one that failed need not wait until it is tried
again by itself.`, role),
		Example: fmt.Sprintf("  rowtrail %ss restart %s", role, example),
		Args:    args("NAME"),
		RunE: func(cmd *cobra.Command, given []string) error {
			answer, err := a.request(cmd.Context(), http.MethodPost, nil, nil, role+"s", given[0], "restart")
			if err != nil {
				return err
			}
			defer closing(answer)
			var done admin.Restarted
			if err := json.NewDecoder(answer.Body).Decode(&done); err != nil {
				return fmt.Errorf("read answer: %w", err)
			}
			if a.json() {
				return a.printJSON(done)
			}
			_, err = fmt.Fprintf(a.out, "%s %s restarts on node %d\n", role, done.Name, done.Node)
			return err
		},
	}
	a.httpFlag(c)
	return c
}
