package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSystemdUnit: systemd understands every line of the unit.
func TestSystemdUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here; install systemd")
	}
	text, err := os.ReadFile(filepath.Join(configDir, "rowtrail.service"))
	must(t, err)
	const installed = "/usr/local/bin/rowtrail"
	if n := strings.Count(string(text), "="+installed+" "); n != 2 {
		t.Fatalf("%d commands of %s, want ExecStartPre and ExecStart", n, installed)
	}
	for name, c := range map[string]struct{ old, new, complaint string }{
		"as it is":    {},
		"a typo":      {"TimeoutStopSec=", "TimeoutStopSek=", "TimeoutStopSek"}, // or this test would see nothing
		"a bad value": {"OOMScoreAdjust=-500", "OOMScoreAdjust=low", "OOM score"},
	} {
		t.Run(name, func(t *testing.T) {
			unit := strings.ReplaceAll(string(text), "="+installed+" ", "=/bin/true ")
			if c.old != "" {
				unit = strings.ReplaceAll(unit, c.old, c.new)
			}
			path := filepath.Join(t.TempDir(), "rowtrail.service")
			must(t, os.WriteFile(path, []byte(unit), 0o600))
			out, err := exec.Command("systemd-analyze", "verify", path).CombinedOutput()
			var lines []string // what it says of other units of this machine is not ours
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "rowtrail.service") {
					lines = append(lines, line)
				}
			}
			switch complaints := strings.Join(lines, ""); {
			case c.complaint == "" && (err != nil || complaints != ""):
				t.Errorf("%v\n%s", err, out)
			case c.complaint != "" && !strings.Contains(complaints, c.complaint):
				t.Errorf("nothing is said of %s: %v\n%s", c.complaint, err, out)
			}
		})
	}
}
