package servers

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	ownerLabel   = "rowtrail.itest.pid"
	peersNetwork = "rowtrail-itest"
	pullTimeout  = 3 * time.Minute
)

// docker runs a server in a container.
type docker struct {
	program
	container testcontainers.Container
	from      string
	published int
	networked bool
}

func dockerAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "docker", "version").Run() == nil
}

func newDocker(ctx context.Context, port int, p program, opts Options) (*docker, error) {
	if err := prepareTestcontainers(); err != nil {
		return nil, err
	}
	d := &docker{program: p, published: port}
	var err error
	if d.from, err = ensureImage(ctx, d.image, opts.Logf); err != nil {
		return nil, err
	}
	return d, nil
}

// prepareTestcontainers turns the reaper off (containers are ended here, and stale ones at the next run) and, inside a
// container with a daemon of its own, keeps testcontainers from taking the default gateway for the Docker host.
func prepareTestcontainers() error {
	set := map[string]string{"TESTCONTAINERS_RYUK_DISABLED": "true"}
	host := os.Getenv("DOCKER_HOST")
	if _, err := os.Stat("/.dockerenv"); err == nil && (host == "" || strings.HasPrefix(host, "unix://")) {
		set["TESTCONTAINERS_HOST_OVERRIDE"] = "127.0.0.1"
	}
	tclog.SetDefault(tclog.NewNoopLogger())
	for k, v := range set {
		if os.Getenv(k) != "" {
			continue
		}
		if err := os.Setenv(k, v); err != nil {
			return fmt.Errorf("set %s: %w", k, err)
		}
	}
	return nil
}

// ensureImage makes the image be there and says where it came from.
func ensureImage(ctx context.Context, image string, logf func(string, ...any)) (string, error) {
	unlock, err := lockImages()
	if err != nil {
		return "", err
	}
	defer unlock()
	removeStale(ctx)
	if exec.CommandContext(ctx, "docker", "image", "inspect", image).Run() == nil {
		return "image here", nil
	}
	mode := os.Getenv("ROWTRAIL_ITEST_IMAGES")
	var pullErr error
	if mode != "build" {
		logf("itest: pulling %s", image)
		pull, cancel := context.WithTimeout(ctx, pullTimeout)
		defer cancel()
		if pullErr = exec.CommandContext(pull, "docker", "pull", "-q", image).Run(); pullErr == nil {
			return "official image", nil
		}
		if mode == "pull" {
			return "", fmt.Errorf("pull %s: %w", image, pullErr)
		}
	}
	logf("itest: building %s from Debian packages", image)
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(root, "itest/images/db-images"), image).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", image, err, lastLine(out))
	}
	return "built from Debian packages", nil
}

// lockImages lets one process at a time build images.
func lockImages() (func(), error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "rowtrail-itest-images.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("lock images: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock images: %w", err)
	}
	return func() { f.Close() }, nil
}

// removeStale ends containers whose owner is gone.
func removeStale(ctx context.Context) {
	out, err := exec.CommandContext(ctx, "docker", "ps", "-a", "--filter", "label="+ownerLabel,
		"--format", `{{.ID}} {{.Label "`+ownerLabel+`"}}`).Output()
	if err != nil {
		return
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		id, owner, ok := strings.Cut(line, " ")
		pid, err := strconv.Atoi(owner)
		if ok && err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = exec.CommandContext(ctx, "docker", "rm", "-f", "-v", id).Run()
		}
	}
}

func (d *docker) start(ctx context.Context) error {
	if d.container != nil {
		return d.container.Start(ctx)
	}
	c, err := testcontainers.Run(ctx, d.image,
		testcontainers.WithEnv(d.env),
		testcontainers.WithCmd(d.command...),
		testcontainers.WithExposedPorts(d.inside()),
		testcontainers.WithLabels(map[string]string{ownerLabel: strconv.Itoa(os.Getpid())}),
		d.fixedPort(),
	)
	if err != nil {
		return err
	}
	d.container = c
	return nil
}

func (d *docker) stop(ctx context.Context, how Shutdown) error {
	if d.container == nil {
		return nil
	}
	if how == Immediate {
		if out, err := exec.CommandContext(ctx, "docker", "kill", d.container.GetContainerID()).CombinedOutput(); err != nil {
			return fmt.Errorf("kill container: %w: %s", err, lastLine(out))
		}
		return nil
	}
	wait := 30 * time.Second
	return d.container.Stop(ctx, &wait)
}

func (d *docker) remove(ctx context.Context) error {
	if d.container == nil {
		return nil
	}
	return d.container.Terminate(ctx, testcontainers.StopTimeout(0))
}

func (d *docker) describe() string { return fmt.Sprintf("%s in Docker (%s)", d.image, d.from) }

// address is a name in a network that servers join once one of them is asked for, since the container's own address may
// change at a restart.
func (d *docker) address(ctx context.Context) (string, int, error) {
	name := fmt.Sprintf("db-%d", d.published)
	if d.networked {
		return name, d.port, nil
	}
	if err := exec.CommandContext(ctx, "docker", "network", "inspect", peersNetwork).Run(); err != nil {
		// Another process may make it at the same time: joining tells.
		_ = exec.CommandContext(ctx, "docker", "network", "create", peersNetwork).Run()
	}
	out, err := exec.CommandContext(ctx, "docker", "network", "connect", "--alias", name, peersNetwork, d.container.GetContainerID()).CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("join network %s: %w: %s", peersNetwork, err, lastLine(out))
	}
	d.networked = true
	return name, d.port, nil
}

func (d *docker) inside() string { return strconv.Itoa(d.port) + "/tcp" }

// fixedPort publishes the server on 127.0.0.1, at the same port over restarts.
func (d *docker) fixedPort() testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
		host.PortBindings = network.PortMap{
			network.MustParsePort(d.inside()): {{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(d.published)}},
		}
	})
}
