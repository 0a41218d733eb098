package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// args names what a command takes; a name in brackets may be left out, and one that ends in dots stands for any number. What is missing or too much is a usage error of one line.
func args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		command := strings.TrimPrefix(cmd.CommandPath(), "rowtrail ")
		help := fmt.Sprintf("; see `rowtrail %s --help`", command)
		if len(given) > 0 && len(names) == 0 && cmd.HasAvailableSubCommands() {
			return usage(fmt.Errorf("%s: there is no command %q%s", command, given[0], help))
		}
		if len(names) > 0 && strings.HasSuffix(names[len(names)-1], "...") && len(given) >= len(names) {
			return nil
		}
		if len(given) > len(names) {
			takes := "none"
			if len(names) > 0 {
				takes = strings.Join(names, " ")
			}
			return usage(fmt.Errorf("%s: too many arguments (%q); it takes %s%s", command, strings.Join(given[len(names):], " "), takes, help))
		}
		for _, name := range names[len(given):] {
			if !strings.HasPrefix(name, "[") {
				return usage(fmt.Errorf("%s: %s is missing%s", command, name, help))
			}
		}
		return nil
	}
}
