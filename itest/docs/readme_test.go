// Package docs runs what the documentation says.
package docs

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/itest/shop"
)

const root = "../.."

// shellBlocks returns the lines of each ```sh block of a Markdown file.
func shellBlocks(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][]string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, strings.Split(strings.TrimSpace(m[1]), "\n"))
	}
	return blocks
}

// TestREADMECommands runs every command of the README in order, against real servers; the addresses it names are replaced by free
// ones. `make demo` has its test in itest/demo, `make test` is what runs this.
func TestREADMECommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node and two databases; run without -short")
	}
	ctx := context.Background()
	p := servers.ForTest(t, servers.Options{})
	for _, database := range []string{"shop", "warehouse"} {
		if _, err := p.CreateDatabase(ctx, database); err != nil {
			t.Fatal(err)
		}
	}
	if err := shop.Load(ctx, shop.Postgres(p.DSN("shop")), shop.Size{Customers: 50, Products: 50, Orders: 100, Items: 100}); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, "SHOP_DSN="+p.DSN("shop"), "WAREHOUSE_DSN="+p.DSN("warehouse"))
	defer r.stop()
	ran := 0
	for _, block := range shellBlocks(t, "README.md") {
		for _, line := range block {
			switch {
			case line == "make demo", line == "make test", line == "make build":
				requireTarget(t, strings.TrimPrefix(line, "make "))
			case strings.HasPrefix(line, "export "):
				name, _, _ := strings.Cut(strings.TrimPrefix(line, "export "), "=")
				if config, _ := os.ReadFile(filepath.Join(root, "configs/shop.yaml")); !strings.Contains(string(config), "${"+name+"}") {
					t.Errorf("%s: configs/shop.yaml does not use it", line)
				}
			case strings.Contains(line, " serve "):
				r.serve(line)
				waitForLoad(t, r)
				ran++
			default:
				r.run(line)
				ran++
			}
		}
	}
	if ran < 10 {
		t.Fatalf("only %d commands found in README.md", ran)
	}
}

// requireTarget checks that CI or a test runs a make target.
func requireTarget(t *testing.T, target string) {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\n"+target+":") {
		t.Errorf("the Makefile has no target %s", target)
	}
}

type runner struct {
	t       *testing.T
	http    string
	env     []string
	replace *strings.Replacer
	served  *exec.Cmd
}

// newRunner builds the binary and runs commands with free addresses in place of those that they name.
func newRunner(t *testing.T, env ...string) *runner {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Build(bin); err != nil {
		t.Fatal(err)
	}
	kafka, http := freeAddress(t), freeAddress(t)
	env = append(env, "ROWTRAIL_KAFKA="+kafka, "ROWTRAIL_HTTP="+http, "ROWTRAIL_SERVER="+kafka, "ROWTRAIL_DATA="+t.TempDir())
	return &runner{t: t, http: http, env: append(os.Environ(), env...),
		replace: strings.NewReplacer("bin/rowtrail", filepath.Join(bin, "rowtrail"), "127.0.0.1:9092", kafka, "127.0.0.1:8080", http)}
}

func (r *runner) command(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", "exec "+r.replace.Replace(line))
	cmd.Dir, cmd.Env = root, r.env
	return cmd
}

func (r *runner) run(line string) string {
	r.t.Helper()
	for _, part := range strings.Split(line, " | ") {
		if program, _, _ := strings.Cut(part, " "); !strings.Contains(program, "/") {
			needProgram(r.t, program)
		}
	}
	var out []byte
	done := make(chan error, 1)
	cmd := r.command(line)
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	select {
	case err := <-done:
		if silent := strings.Contains(line, "kcat -P"); err != nil || (len(out) == 0) != silent {
			r.t.Errorf("%s: %v: %q", line, err, out)
		}
	case <-time.After(30 * time.Second):
		cmd.Process.Kill()
		r.t.Errorf("%s: still running after 30 s", line)
		<-done
	}
	return string(out)
}

// needProgram installs a program of Debian's when a root shell can.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Geteuid() == 0 {
		out, err := exec.Command("apt-get", "install", "-y", "-q", "--no-install-recommends", name).CombinedOutput()
		if err == nil {
			return
		}
		t.Logf("apt-get install %s: %v: %s", name, err, out)
	}
	t.Skipf("the README uses %s, which is not installed", name)
}

func (r *runner) serve(line string) {
	r.t.Helper()
	ready := "http://" + r.http + "/readyz"
	cmd := r.command(line)
	out, err := cmd.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.served = cmd
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.t.Log(lines.Text())
		}
	}()
	deadline := time.Now().Add(30 * time.Second)
	for exec.Command("curl", "-sf", ready).Run() != nil {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not ready after 30 s", line)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// waitForLoad waits for what a reader of the README would wait for before looking around.
func waitForLoad(t *testing.T, r *runner) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(r.run("bin/rowtrail connectors --output json"), "streaming") {
		if time.Now().After(deadline) {
			t.Fatal("the connector is not streaming after 30 s")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stop ends the node as the README says: SIGTERM, and exit code 0.
func (r *runner) stop() {
	if r.served == nil {
		return
	}
	r.served.Process.Signal(syscall.SIGTERM)
	if err := r.served.Wait(); err != nil {
		r.t.Errorf("serve after SIGTERM: %v", err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := process.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// TestLinksLeadSomewhere checks the relative links of every page.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	links := 0
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %s leads nowhere", filepath.Base(page), m[1])
			}
		}
	}
	if links == 0 {
		t.Fatal("no links found")
	}
}

// TestDependenciesAreListed compares go.mod's direct requirements with docs/dependencies.md.
func TestDependenciesAreListed(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z0-9-]+\.[a-z0-9._/-]+) \|`).FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = true
	}
	for _, module := range strings.Fields(string(out)) {
		if !listed[module] {
			t.Errorf("%s is required by go.mod and not in docs/dependencies.md", module)
		}
		delete(listed, module)
	}
	for module, is := range listed {
		if is {
			t.Errorf("%s is in docs/dependencies.md and not a direct requirement of go.mod", module)
		}
	}
	fmt.Printf("itest: %d dependencies listed\n", len(strings.Fields(string(out))))
}
