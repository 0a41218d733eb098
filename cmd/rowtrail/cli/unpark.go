package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/connectors"
)

func (a *app) unparkCommand() *cobra.Command {
	var reload, discard bool
	c := &cobra.Command{
		Use:   "unpark NAME TABLE",
		Short: "Have a parked table go on, with what waited of it",
		Long: `Have a parked table go on, once what stood in its way is mended (its remedy is in the list of ` + "`rowtrail connectors NAME`" + `). TABLE is
its name with the schema or database. What waited is written as events, in order, while the other tables go on; then the table
is captured as before. If it fails again, it stays parked and nothing is lost.

With --reload what waited is forgotten, and the table is loaded again: its topic gets a truncate, then the rows as they are now.
With --discard what waited is lost for good: topic, state and targets lack these changes, and later ones come on top.

The answer comes when the connector has taken the request; ` + "`rowtrail connectors NAME`" + ` shows how far it is.`,
		Example: "  rowtrail connectors unpark shop public.orders\n  rowtrail connectors unpark shop public.orders --reload",
		Args:    args("NAME", "TABLE"),
		RunE: func(cmd *cobra.Command, given []string) error {
			u := connectors.Unpark{Table: given[1]}
			switch {
			case reload && discard:
				return usage(errors.New("--reload and --discard exclude each other"))
			case reload:
				u.How = connectors.UnparkReload
			case discard:
				u.How = connectors.UnparkDiscard
			}
			return a.unpark(cmd, given[0], u)
		},
	}
	c.Flags().BoolVar(&reload, "reload", false, "forget what waited and load the table again, after a truncate")
	c.Flags().BoolVar(&discard, "discard", false, "LOSE what waited: the topic, state and targets lack it from then on")
	a.httpFlag(c)
	return c
}

func (a *app) unpark(cmd *cobra.Command, name string, u connectors.Unpark) error {
	body, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	answer, err := a.request(cmd.Context(), http.MethodPost, body, nil, "connectors", name, "unpark")
	if err != nil {
		return err
	}
	defer closing(answer)
	var done admin.Unparked
	if err := json.NewDecoder(answer.Body).Decode(&done); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if a.json() {
		return a.printJSON(done)
	}
	waits := fmt.Sprintf("%d changes (%s)", done.Changes, bytesText(done.Bytes))
	text := "are written now"
	switch u.How {
	case connectors.UnparkReload:
		text = "are forgotten, and it is loaded again"
	case connectors.UnparkDiscard:
		text = "ARE LOST: its topic, state and targets lack them"
	}
	_, err = fmt.Fprintf(a.out, "table %s of connector %s, on node %d: the %s that waited %s\n", done.Table, done.Name, done.Node, waits, text)
	return err
}

// printParked lists the parked tables below the connectors, if there are any.
func (a *app) printParked(list []connectors.Status) error {
	var t *table
	for _, s := range list {
		for _, p := range s.Parked {
			if t == nil {
				if _, err := fmt.Fprintln(a.out); err != nil {
					return err
				}
				t = newTable(a.out, "CONNECTOR", "TABLE", "STATE", "SINCE", "WAITING", "REASON", "REMEDY")
			}
			waits := fmt.Sprintf("%d changes, %s", p.Changes, bytesText(p.Bytes))
			if p.Load {
				waits += ", then a load"
			}
			then := fmt.Sprintf("; then: rowtrail connectors unpark %s %s", s.Name, p.Table)
			t.row(s.Name, p.Table, p.State, p.Since.Format("2006-01-02T15:04:05Z07:00"), waits, p.Reason, p.Remedy+then)
		}
	}
	if t == nil {
		return nil
	}
	return t.flush()
}
