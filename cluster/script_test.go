package cluster

import (
	"bufio"
	"bytes"
	crand "crypto/rand"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewriteScripts = flag.Bool("rewrite", false, "write what the scripts in testdata do into them")

// script is a simulation that a file of testdata steers, one command at a time: each is followed by a line of dashes and what happened.
type script struct {
	s    *simulation
	out  strings.Builder
	sent int
}

// The scripts show what a group does, step by step.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			real := crand.Reader
			crand.Reader = simReader{rand.New(rand.NewPCG(1, 2))}
			defer func() { crand.Reader = real }()
			want, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got, err := runScript(want)
			if err != nil {
				t.Fatal(err)
			}
			if *rewriteScripts {
				if err := os.WriteFile(f, got, 0o600); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s: other than written down; see what changed with -args -rewrite and git diff. It did:\n%s", f, got)
			}
		})
	}
}

// runScript carries out the commands and returns the file with what they did.
func runScript(file []byte) ([]byte, error) {
	var out bytes.Buffer
	x := &script{}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for answer := false; lines.Scan(); {
		line := lines.Text()
		switch {
		case answer && line != "":
			continue
		case line == "----":
			answer = true
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			answer = false
			fmt.Fprintln(&out, line)
			continue
		}
		x.out.Reset()
		if err := x.do(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		fmt.Fprintf(&out, "%s\n----\n%s", line, x.out.String())
		if x.s.fault != "" {
			return nil, fmt.Errorf("%s: %s", line, x.s.fault)
		}
	}
	return out.Bytes(), lines.Err()
}

func (x *script) say(format string, args ...any) { fmt.Fprintf(&x.out, format+"\n", args...) }

// do is one command. Nodes are numbers from 0 on; there is one group.
func (x *script) do(c []string) error {
	if c[0] == "nodes" {
		return x.begin(c[1:])
	}
	s, arg := x.s, append(c[1:], "", "")
	nodes, err := numbers(arg[0])
	if err != nil && c[0] != "run" {
		return err
	}
	switch c[0] {
	case "run":
		d, err := time.ParseDuration(arg[0])
		if err != nil {
			return err
		}
		s.run(s.now + d)
	case "status":
		x.status()
	case "append": // node, how many
		n, err := strconv.Atoi(arg[1])
		if err != nil {
			return err
		}
		for range n {
			x.append(s.nodes[nodes[0]])
		}
	case "cut": // nodes, from the others
		for _, m := range s.nodes {
			for _, n := range nodes {
				if !slices.Contains(nodes, m.id) {
					s.net.cut[[2]int32{n, m.id}], s.net.cut[[2]int32{m.id, n}] = true, true
				}
			}
		}
	case "mute": // nodes, that others do not hear
		for _, m := range s.nodes {
			for _, n := range nodes {
				s.net.cut[[2]int32{n, m.id}] = true
			}
		}
	case "heal":
		clear(s.net.cut)
	case "crash":
		for _, n := range nodes {
			s.nodes[n].crash("killed")
		}
	case "start":
		for _, n := range nodes {
			s.nodes[n].start()
		}
	case "stop": // the process stands still, its clock too
		d, err := time.ParseDuration(arg[1])
		if err != nil {
			return err
		}
		s.nodes[nodes[0]].frozen = s.now + d
	case "wipe": // the disk is lost, and the catalogue learns of it
		s.loseDisk(s.nodes[nodes[0]])
	case "move":
		return x.move(nodes)
	case "compact":
		for _, n := range nodes {
			r := s.nodes[n].here[0]
			r.mem.compact()
			x.say("node %d: the log starts behind entry %d", n, r.mem.disk.base.index)
		}
	case "campaign":
		m := s.nodes[nodes[0]]
		m.sched.run(m.here[0].g, func() { _ = m.here[0].g.rn.Campaign() })
		m.wake()
	case "transfer": // from the leader
		for _, m := range s.nodes {
			if m.up() && m.here[0] != nil && m.here[0].g.isLeader {
				to, _ := s.groups[0].place.on(nodes[0])
				m.sched.run(m.here[0].g, func() { m.here[0].g.rn.TransferLeader(to.raftID()) })
				m.wake()
			}
		}
	default:
		return fmt.Errorf("%q is no command", c[0])
	}
	return nil
}

// begin makes the cluster: how many nodes, the voters, min.insync.replicas.
func (x *script) begin(c []string) error {
	n, err := strconv.Atoi(c[0])
	if err != nil {
		return err
	}
	voters, err := numbers(c[1])
	if err != nil {
		return err
	}
	minISR, err := strconv.Atoi(c[2])
	if err != nil {
		return err
	}
	s := bareSimulation(1, n, x.say)
	g := s.newGroup(0, minISR)
	for _, v := range voters {
		g.place.Members = append(g.place.Members, Member{Node: v})
	}
	s.machines(n, func(*diskLog) {})
	s.quiet = true // what happens is written in the file
	x.s = s
	return nil
}

func (x *script) move(nodes []int32) error {
	p, err := x.s.groups[0].place.moveTo(nodes)
	if err == nil {
		x.s.place(0, p)
	}
	return err
}

func (x *script) append(m *machine) {
	x.sent++
	text := fmt.Sprint("m", x.sent)
	if !m.up() || m.here[0] == nil {
		x.say("%s: not here", text)
		return
	}
	x.s.appendTo(m, 0, text, -1, func(base int64, err error) {
		if err != nil {
			x.s.note("%s: %v", text, err)
		} else {
			x.s.note("%s: acknowledged at offset %d", text, base)
		}
	})
}

func (x *script) status() {
	for _, m := range x.s.nodes {
		switch {
		case !m.up():
			x.say("node %d: down", m.id)
		case m.here[0] == nil:
			x.say("node %d: no replica", m.id)
		default:
			r := m.here[0]
			l := r.g.lead.Load()
			role := "follows"
			switch {
			case l.self:
				role = "leads"
			case l.node < 0:
				role = "knows no leader"
			}
			x.say("%v: %s in term %d, log (%d, %d], applied %d, %s", r.member, role, r.g.term, r.mem.disk.base.index, r.mem.disk.last(), r.mem.fold.index, confString(r.g.conf))
		}
	}
}

func numbers(s string) (out []int32, err error) {
	if s == "" {
		return nil, nil
	}
	for _, f := range strings.Split(s, ",") {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		out = append(out, int32(n)) //nolint:gosec // written by hand
	}
	return out, nil
}
