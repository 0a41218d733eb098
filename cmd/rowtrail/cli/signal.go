package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/connectors"
)

// signalFlags are what a signal's data is made of.
type signalFlags struct {
	id, where, data string
	truncate        bool
}

func (a *app) signalCommand() *cobra.Command {
	var f signalFlags
	c := &cobra.Command{
		Use:   "signal NAME TYPE [TABLE]...",
		Short: "Load tables again beside the stream, and pause, resume or stop that",
		Long: `Give a running connector one of Debezium's signals, on whichever node runs it. The source needs no table of signals and no right
to write for it.

TYPE is execute-snapshot, stop-snapshot, pause-snapshot, resume-snapshot or log. TABLE is the name of a captured table, or an
expression for several: it is matched with <database>.<table>. execute-snapshot loads them beside the stream: their rows come as
events of op r in chunks, and changes of the stream go before rows of a chunk. stop-snapshot gives up what signals asked for, of
all tables if none is named. pause-snapshot and resume-snapshot are of everything that is being loaded. The answer comes when the
signal is in the log, so that a restart goes on with it; ` + "`rowtrail connectors`" + ` shows how far the load is.

Exit codes beside the usual ones: 2 a signal that is malformed, or a connector that takes none, 3 no captured table is meant.`,
		Example: `  rowtrail connectors signal shop execute-snapshot shop.orders 'shop.c.*'
  rowtrail connectors signal shop execute-snapshot shop.orders --where 'id > 1000000' --output json
  rowtrail connectors signal shop stop-snapshot`,
		Args: args("NAME", "TYPE", "[TABLE]..."),
		RunE: func(cmd *cobra.Command, given []string) error {
			signal := connectors.Signal{ID: f.id, Type: given[1]}
			var err error
			if signal.Data, err = f.of(given[1], given[2:]); err != nil {
				return usage(err)
			}
			if _, err := signal.Parse(); err != nil {
				return usage(err)
			}
			return a.signal(cmd, given[0], signal)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.id, "id", "", "the signal's id, which the progress names")
	flags.StringVar(&f.where, "where", "", "load only the rows that meet this SQL condition")
	flags.BoolVar(&f.truncate, "truncate", false, "begin with a truncate of each table's topic")
	flags.StringVar(&f.data, "data", "", "the signal's data as Debezium has it, JSON, instead of TABLE, --where and --truncate")
	a.httpFlag(c)
	return c
}

// of is the data of a signal.
func (f *signalFlags) of(typ string, tables []string) (json.RawMessage, error) {
	if f.data != "" {
		if len(tables) > 0 || f.where != "" || f.truncate {
			return nil, errors.New("--data stands for all: leave TABLE, --where and --truncate out")
		}
		return json.RawMessage(f.data), nil
	}
	data := map[string]any{}
	if len(tables) > 0 {
		data["data-collections"] = tables
	}
	if typ == connectors.SignalExecute {
		data["type"] = "incremental"
	}
	if f.where != "" {
		data["additional-condition"] = f.where
	}
	if f.truncate {
		data["truncate"] = true
	}
	return json.Marshal(data)
}

func (a *app) signal(cmd *cobra.Command, name string, signal connectors.Signal) error {
	body, err := json.Marshal(signal)
	if err != nil {
		return usage(fmt.Errorf("--data: %w", err))
	}
	answer, err := a.request(cmd.Context(), http.MethodPost, body, nil, "connectors", name, "signal")
	if err != nil {
		return err
	}
	defer closing(answer)
	var done admin.Signaled
	if err := json.NewDecoder(answer.Body).Decode(&done); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if a.json() {
		return a.printJSON(done)
	}
	about := strings.Join(done.Tables, ", ")
	switch {
	case done.Type == connectors.SignalLog:
		about = "written"
	case about == "":
		about = "nothing is being loaded"
	}
	_, err = fmt.Fprintf(a.out, "connector %s took %s on node %d: %s\n", done.Name, done.Type, done.Node, about)
	return err
}
