package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/configs"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitError       = 1 // the command failed, or check found errors
	ExitUsage       = 2 // the command line is wrong
	ExitNotFound    = 3 // the topic, row, group, transaction, connector, sink or node does not exist
	ExitUnreachable = 4 // no node answers at the address
)

// failure is an error with an exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &failure{ExitUsage, err}
}

func notFound(format string, args ...any) error {
	return &failure{ExitNotFound, fmt.Errorf(format, args...)}
}

func unreachable(format string, args ...any) error {
	return &failure{ExitUnreachable, fmt.Errorf(format, args...)}
}

// app is what the commands share.
type app struct {
	out, err io.Writer
	version  string
	config   string // -c
	server   string // --server
	brokers  []string
	http     string // --http
	output   string // --output
	login    login
}

// Run executes a command line and returns its exit code. linked is the version that the linker set, or "".
func Run(args []string, stdout, stderr io.Writer, linked string) int {
	a := &app{out: stdout, err: stderr, version: versionOf(linked)}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return ExitOK
	}
	code := ExitError
	if f := (*failure)(nil); errors.As(err, &f) {
		code = f.code
	} else if strings.HasPrefix(err.Error(), "unknown command") {
		code = ExitUsage
	}
	if text := err.Error(); text != "" {
		if code == ExitUsage && !strings.Contains(text, "--help`") {
			text += "\nrun `rowtrail --help`, or `rowtrail COMMAND --help`"
		}
		if problems := (configs.Problems)(nil); !errors.As(err, &problems) { // those begin with their file
			text = "rowtrail: " + text
		}
		_, _ = fmt.Fprintln(stderr, text) // nowhere else to say it
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "rowtrail",
		Short: "Keep the trail of every row",
		Long: `Rowtrail captures row changes from databases, keeps them in a durable log that Kafka clients read, answers for the
current and past state of every row, and applies changes to other databases in whole transactions.

Exit codes: 0 ok, 1 failed or check found errors, 2 wrong command line, 3 no such topic, row, group, transaction, connector,
sink or node, 4 no node answers.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(errors.New("no command given"))
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	flags := root.PersistentFlags()
	flags.StringVarP(&a.output, "output", "o", "table", "how to print: table or json (one JSON document a line for streams)")
	flags.StringVarP(&a.config, "config", "c", "", "the node's YAML file; other commands take its addresses from it")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.output != "table" && a.output != "json" {
			return usage(fmt.Errorf("--output %q is neither table nor json", a.output))
		}
		return nil
	}
	root.AddCommand(a.serveCommand(), a.checkCommand(), a.topicsCommand(), a.tailCommand(), a.stateCommand(), a.historyCommand(),
		a.groupsCommand(), a.transactionsCommand(), a.connectorsCommand(), a.sinksCommand(), a.clusterCommand(), a.versionCommand())
	return root
}

func (a *app) json() bool { return a.output == "json" }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  rowtrail version --output json",
		Args:    args(),
		RunE: func(*cobra.Command, []string) error {
			info := map[string]string{"version": a.version}
			if build, ok := debug.ReadBuildInfo(); ok {
				info["go"] = build.GoVersion
				for _, s := range build.Settings {
					if s.Key == "vcs.revision" {
						info["commit"] = s.Value
					}
				}
			}
			if a.json() {
				return a.printJSON(info)
			}
			_, err := fmt.Fprintf(a.out, "rowtrail %s %s\n", info["version"], info["go"])
			return err
		},
	}
}

func versionOf(linked string) string {
	if linked != "" {
		return linked
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" && build.Main.Version != "(devel)" {
		return build.Main.Version
	}
	return "dev"
}
