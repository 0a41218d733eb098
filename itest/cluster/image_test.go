package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const configDir = "../../configs/cluster"

// TestImageRunsTheExampleFiles builds the image and runs the three files as the Compose file does: read-only but for the data, without privileges, and under
// the names that the files have.
func TestImageRunsTheExampleFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an image and runs containers of it; run without -short")
	}
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("there is no Docker daemon here: %v: %s", err, bytes.TrimSpace(out))
	}
	docker := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("docker", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	folder := t.TempDir() // what bin/ is to the Compose file
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "rowtrail"), "github.com/rowtrail/rowtrail/cmd/rowtrail")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	name := fmt.Sprintf("rowtrail-test-%d", time.Now().UnixNano())
	docker("build", "--quiet", "--file", filepath.Join(configDir, "Dockerfile"), "--tag", name, folder)
	t.Cleanup(func() { docker("rmi", "--force", name) })
	docker("network", "create", name)
	t.Cleanup(func() { docker("network", "rm", name) })
	files, err := filepath.Abs(configDir)
	must(t, err)
	for i := 1; i <= 3; i++ {
		container := fmt.Sprintf("%s-%d", name, i)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(docker("logs", "--tail", "15", container))
			}
			docker("rm", "--force", "--volumes", container)
		})
		docker("run", "--detach", "--name", container, "--network", name, "--network-alias", fmt.Sprintf("rowtrail-%d", i), "--read-only", "--cap-drop", "ALL",
			"--security-opt", "no-new-privileges", "--volume", fmt.Sprintf("%s/node%d.yaml:/etc/rowtrail/rowtrail.yaml:ro", files, i), name)
	}
	first := name + "-1"
	out := docker("exec", first, "/rowtrail", "cluster", "status", "--wait", "60s")
	for _, want := range []string{"rowtrail-1:9094", "rowtrail-2:9094", "rowtrail-3:9094", "3 of 3 voters alive"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
	docker("stop", "--time", "45", name+"-2")
	if code := docker("inspect", "--format", "{{.State.ExitCode}}", name+"-2"); code != "0" {
		t.Errorf("a stopped node ends with exit code %s", code)
	}
}
