package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/connectors"
	connectorpg "github.com/rowtrail/rowtrail/connectors/postgres"
	sinkpg "github.com/rowtrail/rowtrail/sink/postgres"
)

const checkTimeout = time.Minute

// finding is one result of `check`. Where is file:line for the file, else the connector or sink.
type finding struct {
	Where   string `json:"where"`
	Level   string `json:"level"` // error or warning
	Subject string `json:"subject"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

func (a *app) checkCommand() *cobra.Command {
	var connect bool
	c := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration file, and with --connect its sources and targets",
		Long: `Check a configuration file and print everything wrong with it. With --connect, also connect to every source and target, check
permissions and settings, and print the exact SQL that mends each finding. Exit code 1 when there are errors; warnings are
no errors.`,
		Example: "  rowtrail check -c configs/shop.yaml\n  rowtrail check -c configs/shop.yaml --connect --output json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.check(cmd.Context(), connect)
		},
	}
	c.Flags().BoolVar(&connect, "connect", false, "connect to every source and target")
	return c
}

func (a *app) check(ctx context.Context, connect bool) error {
	cfg, err := a.load()
	var problems configs.Problems
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	findings := []finding{}
	for _, p := range problems {
		where := p.File
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		findings = append(findings, finding{where, connectors.LevelError, p.Key, p.What, p.Remedy})
	}
	if connect && len(problems) == 0 {
		findings = append(findings, connectFindings(ctx, cfg)...)
	}
	failed := 0
	for _, f := range findings {
		if f.Level == connectors.LevelError {
			failed++
		}
	}
	if err := a.printFindings(findings, failed, connect); err != nil {
		return err
	}
	if failed > 0 {
		return &failure{ExitError, errors.New("")} // all is said
	}
	return nil
}

// connectFindings asks all sources and targets at the same time and keeps the file's order.
func connectFindings(ctx context.Context, cfg *configs.Config) []finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	parts := make([][]finding, len(cfg.Connectors)+len(cfg.Sinks))
	var wg sync.WaitGroup
	for i, c := range cfg.Connectors {
		wg.Go(func() {
			if parsed, ok := c.Parsed.(*connectorpg.Config); ok {
				for _, f := range connectorpg.Check(ctx, parsed) {
					parts[i] = append(parts[i], finding{"connector " + c.Name, f.Level, f.Subject, f.Problem, f.Remedy})
				}
			}
		})
	}
	for i, s := range cfg.Sinks {
		wg.Go(func() {
			if parsed, ok := s.Parsed.(*sinkpg.Config); ok {
				for _, f := range sinkpg.Check(ctx, parsed) {
					at := len(cfg.Connectors) + i
					parts[at] = append(parts[at], finding{"sink " + s.Name, f.Level, f.Subject, f.Problem, f.Remedy})
				}
			}
		})
	}
	wg.Wait()
	var all []finding
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func (a *app) printFindings(findings []finding, failed int, connect bool) error {
	if a.json() {
		return a.printJSON(map[string]any{"ok": failed == 0, "file": a.config, "connected": connect, "findings": findings})
	}
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s: ", f.Where)
		if f.Level != connectors.LevelError {
			fmt.Fprintf(&b, "%s: ", f.Level)
		}
		if f.Subject != "" {
			fmt.Fprintf(&b, "%s: ", f.Subject)
		}
		b.WriteString(printable(f.Problem))
		if f.Remedy != "" {
			fmt.Fprintf(&b, "; %s", strings.TrimSpace(f.Remedy))
		}
		b.WriteString("\n")
	}
	if failed == 0 {
		fmt.Fprintf(&b, "%s: ok", a.config)
		if n := len(findings); n > 0 {
			fmt.Fprintf(&b, ", %d warnings", n)
		}
		b.WriteString("\n")
	} else {
		fmt.Fprintf(&b, "%s: %d errors, %d warnings\n", a.config, failed, len(findings)-failed)
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}
