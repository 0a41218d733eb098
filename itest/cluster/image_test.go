package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const configDir = "../../configs/cluster"

// TestImage builds the image as the Dockerfile says and runs it as the files of configs/cluster do.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an image and runs containers of it; run without -short")
	}
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("there is no Docker daemon here: %v: %s", err, bytes.TrimSpace(out))
	}
	folder := t.TempDir() // what bin/ is to the Compose file
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "rowtrail"), "github.com/rowtrail/rowtrail/cmd/rowtrail")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	image := fmt.Sprintf("rowtrail-test-%d", time.Now().UnixNano())
	docker(t, "build", "--quiet", "--file", filepath.Join(configDir, "Dockerfile"), "--tag", image, folder)
	t.Cleanup(func() { docker(t, "rmi", "--force", image) })
	t.Run("the example files", func(t *testing.T) { imageRunsTheExampleFiles(t, image) })
	t.Run("the Compose file", func(t *testing.T) { composeFile(t, image) })
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, exec.Command("docker", args...))
}

// run returns what a command printed.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// imageRunsTheExampleFiles runs the three files as the Compose file does: read-only but for the data, without privileges, and under the names
// that the files have.
func imageRunsTheExampleFiles(t *testing.T, name string) {
	docker(t, "network", "create", name)
	t.Cleanup(func() { docker(t, "network", "rm", name) })
	files, err := filepath.Abs(configDir)
	must(t, err)
	for i := 1; i <= 3; i++ {
		container := fmt.Sprintf("%s-%d", name, i)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(docker(t, "logs", "--tail", "15", container))
			}
			docker(t, "rm", "--force", "--volumes", container)
		})
		docker(t, "run", "--detach", "--name", container, "--network", name, "--network-alias", fmt.Sprintf("rowtrail-%d", i), "--read-only", "--cap-drop", "ALL",
			"--security-opt", "no-new-privileges", "--volume", fmt.Sprintf("%s/node%d.yaml:/etc/rowtrail/rowtrail.yaml:ro", files, i), name)
	}
	first := name + "-1"
	out := docker(t, "exec", first, "/rowtrail", "cluster", "status", "--wait", "60s")
	for _, want := range []string{"rowtrail-1:9094", "rowtrail-2:9094", "rowtrail-3:9094", "3 of 3 voters alive"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
	docker(t, "stop", "--time", "45", name+"-2")
	if code := docker(t, "inspect", "--format", "{{.State.ExitCode}}", name+"-2"); code != "0" {
		t.Errorf("a stopped node ends with exit code %s", code)
	}
}

// composeCommand is what runs Compose files here: the plugin of Docker, or the command of its own, which is version 1 on Debian 12.
func composeCommand(t *testing.T) []string {
	t.Helper()
	for _, c := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.Command(c[0], append(c[1:len(c):len(c)], "version")...).Run() == nil {
			return c
		}
	}
	t.Skip("there is no Compose here; install docker-compose")
	return nil
}

// composeFile starts the three, writes and reads from this machine while one of them is killed, and takes everything down again.
func composeFile(t *testing.T, image string) {
	command := composeCommand(t)
	compose := func(args ...string) string {
		t.Helper()
		all := append(command[:len(command):len(command)], append([]string{"--project-name", image, "--file", filepath.Join(configDir, "compose.yaml")}, args...)...)
		cmd := exec.Command(all[0], all[1:]...)
		cmd.Env = append(os.Environ(), "ROWTRAIL_IMAGE="+image)
		return run(t, cmd)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(compose("logs", "--tail=15"))
		}
		compose("down", "--volumes")
		if left := docker(t, "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+image); left != "" {
			t.Errorf("containers are left after down: %s", left)
		}
	})
	compose("up", "--no-build", "--detach")
	status := func(node string) string {
		return compose("exec", "-T", node, "/rowtrail", "cluster", "status", "--wait", "60s")
	}
	if out := status("rowtrail-1"); !strings.Contains(out, "127.0.0.1:19093") || !strings.Contains(out, "3 of 3 voters alive") {
		t.Errorf("status:\n%s", out)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:19092", "127.0.0.1:19093", "127.0.0.1:19094"), kgo.DefaultProduceTopic("demo"),
		kgo.ConsumeTopics("demo"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), pollFor)
	defer cancel()
	_, err = kadm.NewClient(client).CreateTopic(ctx, 3, -1, nil, "demo") // each node leads one
	must(t, err)
	const records = 30
	write := func() {
		t.Helper()
		for range records {
			must(t, client.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr())
		}
	}
	write()
	compose("kill", "rowtrail-1")
	write()
	compose("start", "rowtrail-1")
	status("rowtrail-2")
	for read := 0; read < 2*records; {
		fetches := client.PollFetches(ctx)
		must(t, fetches.Err())
		read += fetches.NumRecords()
	}
	compose("stop", "rowtrail-3")
	id := docker(t, "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+image, "--filter", "label=com.docker.compose.service=rowtrail-3")
	if code := docker(t, "inspect", "--format", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("a stopped node ends with exit code %s", code)
	}
	if health := healthOf(t, image, "rowtrail-2"); health != "healthy" {
		t.Errorf("rowtrail-2 is %s", health)
	}
}

// healthOf waits for the first judgement of a service's health.
func healthOf(t *testing.T, project, service string) string {
	t.Helper()
	id := docker(t, "ps", "--quiet", "--filter", "label=com.docker.compose.project="+project, "--filter", "label=com.docker.compose.service="+service)
	for deadline := time.Now().Add(pollFor); ; time.Sleep(200 * time.Millisecond) {
		health := docker(t, "inspect", "--format", "{{.State.Health.Status}}", id)
		if health != "starting" || time.Now().After(deadline) {
			return health
		}
	}
}
