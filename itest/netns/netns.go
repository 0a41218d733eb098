package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Network is a switch and its hosts.
type Network struct {
	name  string
	outer string // this process's link to the switch
	Outer string // this process's address
	Hosts []*Host
}

// Host is a namespace.
type Host struct {
	net     *Network
	ns      string
	Address string
}

// namespaces are named by the process that made them, and what they are of it.
const prefix = "rtns"

var ours = regexp.MustCompile(`(?m)^` + prefix + `(\d+)-\S+`)

// Permitted is nil where this process may make networks, or tells why it may not.
func Permitted() error {
	for _, tool := range []string{"ip", "iptables", "tc", "ss"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("network namespaces need %s: %w", tool, err)
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	probe := fmt.Sprintf("%s%d-probe", prefix, os.Getpid())
	if err := run("ip", "netns", "add", probe); err != nil {
		return fmt.Errorf("network namespaces are not permitted: %w", err)
	}
	defer func() { _ = run("ip", "netns", "del", probe) }()
	if err := run("ip", "netns", "exec", probe, "iptables", "-A", "INPUT", "-p", "tcp", "-m", "statistic", "--mode", "random", "--probability", "0.5",
		"-j", "DROP"); err != nil {
		return fmt.Errorf("no packet filter: %w", err)
	}
	return nil
}

// New makes a network of hosts; a process has one at a time. What processes that are gone have left behind is removed.
func New(hosts int) (*Network, error) {
	sweep()
	pid := os.Getpid()
	n := &Network{name: fmt.Sprintf("%s%d", prefix, pid), outer: "rt" + strconv.Itoa(pid)}
	subnet := fmt.Sprintf("10.%d.%d", 160+pid/256%64, pid%256)
	n.Outer = subnet + ".1"
	sw := n.name + "-switch"
	steps := [][]string{
		{"ip", "netns", "add", sw},
		{"ip", "-n", sw, "link", "add", "name", "switch", "type", "bridge"},
		{"ip", "-n", sw, "link", "set", "switch", "up"},
		{"ip", "link", "add", n.outer, "type", "veth", "peer", "name", "outer", "netns", sw},
		{"ip", "-n", sw, "link", "set", "outer", "master", "switch", "up"},
		{"ip", "addr", "add", n.Outer + "/24", "dev", n.outer},
		{"ip", "link", "set", n.outer, "up"},
	}
	for i := range hosts {
		h := &Host{net: n, ns: fmt.Sprintf("%s-%d", n.name, i+1), Address: fmt.Sprintf("%s.%d", subnet, 11+i)}
		n.Hosts = append(n.Hosts, h)
		port := "port" + strconv.Itoa(i+1)
		steps = append(steps,
			[]string{"ip", "netns", "add", h.ns},
			[]string{"ip", "-n", h.ns, "link", "set", "lo", "up"},
			[]string{"ip", "-n", h.ns, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", sw},
			[]string{"ip", "-n", sw, "link", "set", port, "master", "switch", "up"},
			[]string{"ip", "-n", h.ns, "addr", "add", h.Address + "/24", "dev", "eth0"},
			[]string{"ip", "-n", h.ns, "link", "set", "eth0", "up"})
	}
	for _, s := range steps {
		if err := run(s[0], s[1:]...); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// Close removes the network, or what there is of it. Processes in it must have ended. This process's link is removed by name: the
// kernel takes apart a namespace and the links in it some time after it was deleted, and the next network needs the name.
func (n *Network) Close() error {
	var errs []error
	if _, err := net.InterfaceByName(n.outer); err == nil {
		errs = append(errs, run("ip", "link", "del", n.outer))
	}
	names := []string{n.name + "-switch"}
	for _, h := range n.Hosts {
		names = append(names, h.ns)
	}
	for _, ns := range names {
		if _, err := os.Stat("/run/netns/" + ns); err == nil {
			errs = append(errs, run("ip", "netns", "del", ns))
		}
	}
	return errors.Join(errs...)
}

// sweep removes the namespaces of processes that are gone.
func sweep() {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for _, m := range ours.FindAllStringSubmatch(string(out), -1) {
		pid, _ := strconv.Atoi(m[1])
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = run("ip", "netns", "del", m[0])
		}
	}
}

// Command is what runs a program on the host, before its name.
func (h *Host) Command() []string { return []string{"ip", "netns", "exec", h.ns} }

// on runs a tool on the host.
func (h *Host) on(args ...string) error {
	return run("ip", append([]string{"netns", "exec", h.ns}, args...)...)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
