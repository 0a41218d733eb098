package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/daemon"
	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/connectors"
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
		Short: "Check a configuration file, and with --connect its sources, targets and log.kafka",
		Long: `Check a configuration file and print everything wrong with it. With --connect, also connect to every source and target and
to the cluster of log.kafka, check permissions and settings, and print the exact SQL that mends each finding. Exit code 1 when there are errors; warnings are
no errors.`,
		Example: "  rowtrail check -c configs/shop.yaml\n  rowtrail check -c configs/shop.yaml --connect --output json",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.check(cmd.Context(), connect)
		},
	}
	c.Flags().BoolVar(&connect, "connect", false, "connect to every source and target, and to the cluster of log.kafka")
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
	if len(problems) == 0 {
		findings = append(findings, truncateFindings(cfg)...)
		findings = append(findings, ownTopicFindings(cfg)...)
		findings = append(findings, loginFindings(cfg)...)
		if cfg.Listen.TLS.Enabled() {
			findings = append(findings, fileFindings(cfg, "listen.tls", daemon.CheckTLS(cfg.Listen.TLS))...)
		}
		if cfg.Cluster.TLS.Enabled() {
			findings = append(findings, fileFindings(cfg, "cluster.tls", daemon.CheckClusterTLS(cfg))...)
		}
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

// fileFindings tells of a section's files what its start would.
func fileFindings(cfg *configs.Config, section string, err error) []finding {
	if err == nil {
		return nil
	}
	subject, problem, _ := strings.Cut(err.Error(), ": ")
	problem, remedy, _ := strings.Cut(problem, "; ")
	where := fmt.Sprintf("%s:%d", cfg.File(), max(cfg.Line(subject), cfg.Line(section)))
	return []finding{{where, connectors.LevelError, subject, problem, remedy}}
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
			fmt.Fprintf(&b, ", %s", count(n, "warning"))
		}
		b.WriteString("\n")
	} else {
		fmt.Fprintf(&b, "%s: %s, %s\n", a.config, count(failed, "error"), count(len(findings)-failed, "warning"))
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
