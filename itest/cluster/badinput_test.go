package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMistakesNameTheRemedy: each mistake that an operator of a cluster can make is one line that says what to do, and harms nobody else.
func TestMistakesNameTheRemedy(t *testing.T) {
	c := newNodes(t, 3)

	// Peers that are not there: the node waits, and says for whom.
	must(t, c.procs[0].Start())
	said(t, c.procs[0], "this node belongs to no cluster yet")
	if _, err := c.procs[0].CLI(t.Context(), "cluster", "join"); err == nil || !strings.Contains(err.Error(), "node 2: dial tcp") {
		t.Errorf("join without peers: %v", err)
	}
	if err := c.procs[0].JSON(t.Context(), "/readyz", nil); err == nil || !strings.Contains(err.Error(), "waits for node") {
		t.Errorf("readyz without peers: %v", err)
	}
	c.start(c.procs[1:]...)
	c.whole(c.procs[0])

	t.Run("duplicate node id", func(t *testing.T) {
		twin := c.node(t.TempDir(), 2, freeAddress(t), c.peers[:1], nil)
		const want = "node 2 is alive in this cluster with another data directory; give this node an id of its own (node.id)"
		if _, err := twin.CLI(t.Context(), "cluster", "join"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("join: %v", err)
		}
		must(t, twin.Start())
		said(t, twin, want)
		must(t, twin.Stop())
		renamed := c.node(t.TempDir(), 8, freeAddress(t), c.peers[:1], map[string]string{"data_dir": dataOf(twin)})
		if out, err := renamed.CLI(t.Context(), "cluster", "join"); err != nil || !strings.Contains(out, "node 8 would join") {
			t.Errorf("join under another id: %v\n%s", err, out)
		}
	})
	t.Run("wrong cluster id", func(t *testing.T) {
		other := c.node(t.TempDir(), 4, freeAddress(t), c.peers, map[string]string{"cluster_id": "another"})
		const want = "the configuration says another; correct node.cluster_id or cluster.peers"
		must(t, other.Start())
		said(t, other, want)
		must(t, other.Stop())
	})
	t.Run("wrong address", func(t *testing.T) {
		swapped := strings.Replace(c.peers[0], "id: 1", "id: 2", 1)
		stray := c.node(t.TempDir(), 4, freeAddress(t), []string{swapped}, nil)
		must(t, stray.Start())
		if line := ends(t, stray); !strings.Contains(line, "node 1 answers at") || !strings.Contains(line, "where cluster.peers names node 2; correct it") {
			t.Errorf("%s", line)
		}
	})
	t.Run("an address that the others do not reach", func(t *testing.T) {
		nowhere := freeAddress(t)
		c.more = func(int) (cluster, listen string) { return fmt.Sprintf("  advertised: %q\n", nowhere), "" }
		stray := c.node(t.TempDir(), 4, freeAddress(t), c.peers, nil)
		c.more = nil
		must(t, stray.Start())
		said(t, stray, "node 4 cannot be reached at "+nowhere+" (cluster.advertised) from node ")
		must(t, stray.Stop())
		if out, err := c.procs[0].CLI(t.Context(), "cluster", "status", "--check"); err != nil || strings.Contains(out, nowhere) {
			t.Errorf("status: %v\n%s", err, out)
		}
	})
	t.Run("two processes on one data directory", func(t *testing.T) {
		second := c.node(t.TempDir(), 1, freeAddress(t), c.peers, map[string]string{"data_dir": dataOf(c.procs[0])})
		must(t, second.Start())
		if line := ends(t, second); !strings.Contains(line, "data directory is in use") || !strings.Contains(line, "stop it or choose another data directory") {
			t.Errorf("%s", line)
		}
	})
	t.Run("another node's data directory", func(t *testing.T) {
		must(t, c.procs[2].Stop())
		thief := c.node(t.TempDir(), 9, freeAddress(t), c.peers, map[string]string{"data_dir": dataOf(c.procs[2])})
		must(t, thief.Start())
		if line := ends(t, thief); !strings.Contains(line, "belongs to node 3 and the configuration says node 9; correct node.id or node.data_dir") {
			t.Errorf("%s", line)
		}
		b, err := os.ReadFile(filepath.Join(dataOf(c.procs[2]), "node.json"))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dataOf(c.procs[2]), "node.json"), b[:len(b)/2], 0o600))
		must(t, c.procs[2].Start())
		if line := ends(t, c.procs[2]); !strings.Contains(line, "node.json is not readable") || !strings.Contains(line, "let the node join again") {
			t.Errorf("%s", line)
		}
		must(t, c.procs[2].Kill())
		must(t, os.WriteFile(filepath.Join(dataOf(c.procs[2]), "node.json"), b, 0o600))
		c.start(c.procs[2])
		c.whole(c.procs[0])
	})
	t.Run("a removed node", func(t *testing.T) {
		fourth := c.node(t.TempDir(), 4, freeAddress(t), c.peers, nil)
		removed := func() {
			for _, command := range []string{"drain", "remove"} {
				out, err := c.procs[0].CLI(t.Context(), "cluster", command, "4")
				if err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
			}
		}
		c.start(fourth)
		removed()
		want := "node 4: it was removed from the cluster; empty the data directory " + dataOf(fourth) + " to join as a new one"
		for _, when := range []string{"as it runs", "as it starts"} {
			if line := endsAtLast(t, fourth); !strings.Contains(line, want) {
				t.Errorf("%s: %s", when, line)
			}
			must(t, fourth.Kill())
			must(t, fourth.Start())
		}
		if _, err := fourth.CLI(t.Context(), "cluster", "join"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("join: %v", err)
		}
		must(t, fourth.Kill())
		must(t, os.RemoveAll(dataOf(fourth)))
		c.start(fourth)
		c.whole(fourth)
		removed()
		endsAtLast(t, fourth)
	})
	t.Run("a data directory of another cluster", func(t *testing.T) {
		must(t, c.procs[2].Stop())
		alone := c.node(t.TempDir(), 3, freeAddress(t), nil, nil) // founds a cluster of one
		c.start(alone)
		must(t, alone.Stop())
		stray := c.node(t.TempDir(), 3, addressIn(c.peers[2]), c.peers, map[string]string{"data_dir": dataOf(alone)})
		must(t, stray.Start())
		said(t, stray, "a node of cluster.peers does not want this one; correct node.data_dir or cluster.peers")
		said(t, c.procs[0], `"a peer refuses this node","part":"cluster","node":3`)
		must(t, stray.Stop())
		if n := strings.Count(logOf(t, stray), "a node of cluster.peers does not want this one"); n != 2 {
			t.Errorf("said %d times, want once of each peer:\n%s", n, stray.Tail(15))
		}
		c.start(c.procs[2])
		c.whole(c.procs[0])
	})
	t.Run("operations that cannot be", func(t *testing.T) {
		for _, x := range []struct{ command, want string }{
			{"cluster drain 9", "drain node 9: no such node"},
			{"cluster undrain 9", "undrain node 9: no such node"},
			{"cluster stop", `cluster: there is no command "stop"`},
			{"cluster drain x", `"x" is no node's number`},
			{"cluster remove 1", "remove node 1: drain it first"},
			{"cluster reassign nothing 0 1", "partition nothing-0"},
			{"cluster reassign __consumer_offsets 0 1,9", "9"},
			{"cluster cancel __consumer_offsets 0", "partition __consumer_offsets-0 is not moving"},
			{"cluster cancel __consumer_offsets", "name a topic and a partition, or --all"},
			{"cluster", "a subcommand is missing"},
		} {
			if out, err := c.procs[0].CLI(t.Context(), strings.Fields(x.command)...); err == nil || !strings.Contains(out, x.want) || strings.Count(strings.TrimSpace(out), "\n") > 1 {
				t.Errorf("%s: %v\n%s", x.command, err, out)
			}
		}
		out, err := c.procs[0].CLI(t.Context(), "cluster", "drain", "3")
		if err == nil || !strings.Contains(out, "replicas that no other node can take") || !strings.Contains(out, "`rowtrail cluster undrain 3` takes that back") {
			t.Errorf("drain of one of three: %v\n%s", err, out)
		}
		_, err = c.procs[0].CLI(t.Context(), "cluster", "undrain", "3")
		must(t, err)
	})
	t.Run("no quorum", func(t *testing.T) {
		must(t, c.procs[1].Stop())
		must(t, c.procs[2].Stop())
		out, err := c.procs[0].CLI(t.Context(), "cluster", "status", "--check")
		if err == nil || !strings.Contains(out, "the cluster is not whole: ") || !strings.Contains(out, "node 2 is not alive") && !strings.Contains(out, "node 3 is not alive") {
			t.Errorf("status: %v\n%s", err, out)
		}
		out, err = c.procs[0].CLI(t.Context(), "cluster", "drain", "2")
		if err == nil || !strings.Contains(out, "a majority of the nodes that vote has to be there") {
			t.Errorf("drain without a majority: %v\n%s", err, out)
		}
		out, err = c.procs[0].CLI(t.Context(), "topics", "describe", "__consumer_offsets")
		if err != nil || !strings.Contains(out, "PARTITION") {
			t.Errorf("a topic, where two of three nodes are down: %v\n%s", err, out)
		}
		// It starts alone, too, and shows what it has.
		must(t, c.procs[0].Stop())
		c.start(c.procs[0])
		if out, err := c.procs[0].CLI(t.Context(), "cluster", "status"); err != nil || !strings.Contains(out, "offline") {
			t.Errorf("status after a start alone: %v\n%s", err, out)
		}
		c.start(c.procs[1:]...)
		c.whole(c.procs[1])
	})
}
