package configs

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestClusterProblems(t *testing.T) {
	const two = "peers: [{id: 1, address: \"10.0.0.1:9094\"}, {id: 2, address: \"10.0.0.2:9094\"}]"
	const listen = "listen: \"10.0.0.1:9094\""
	for name, c := range map[string]struct{ cluster, want string }{
		"nothing":          {"", ""},
		"first of two":     {listen + ", " + two, ""},
		"joins":            {"listen: \"10.0.0.9:9094\", peers: [{id: 2, address: \"10.0.0.2:9094\"}]", ""},
		"all addresses":    {"listen: \"0.0.0.0:9094\", " + two, ""},
		"all, and advised": {"listen: \":9094\", advertised: \"h:9094\", peers: [{id: 2, address: \"10.0.0.2:9094\"}]", ""},
		"no listener":      {two, "cluster.listen: is missing beside peers; write the host:port of this machine where the other nodes connect, as 10.0.0.1:9094"},
		"idle advertised":  {"advertised: \"h:1\"", "cluster.advertised: has no effect, as cluster.listen is empty; set cluster.listen, or remove it"},
		"unreachable": {"listen: \"0.0.0.0:9094\", peers: [{id: 2, address: \"10.0.0.2:9094\"}]",
			"cluster.listen: 0.0.0.0:9094 stands for all addresses, which no node can connect to; set cluster.advertised to the host:port that the other nodes reach, or name this node in cluster.peers"},
		"advertised all":  {listen + ", advertised: \"0.0.0.0:1\"", "cluster.advertised: 0.0.0.0:1 is no address to connect to; write the host:port that the other nodes reach"},
		"Kafka's":         {"listen: \"127.0.0.1:9092\"", "cluster.listen: is the same address as listen.kafka (127.0.0.1:9092); give each its own port"},
		"node twice":      {listen + ", peers: [{id: 2, address: \"h:1\"}, {id: 2, address: \"h:2\"}]", "cluster.peers[1].id: node 2 is there twice; keep one of them"},
		"address twice":   {listen + ", peers: [{id: 2, address: \"h:1\"}, {id: 3, address: \"h:1\"}]", "cluster.peers[1].address: h:1 is there twice; give each node its own address"},
		"no address":      {listen + ", peers: [{id: 2}]", "cluster.peers[0].address: is missing; add it: Where the other nodes reach it: its cluster.advertised, or cluster.listen."},
		"no id":           {listen + ", peers: [{address: \"h:1\"}]", "cluster.peers[0].id: is missing; add it: Its node.id."},
		"peer everywhere": {listen + ", peers: [{id: 2, address: \"0.0.0.0:1\"}]", "cluster.peers[0].address: 0.0.0.0:1 is no address to connect to; write the host:port where the other nodes reach it"},
		"two of its own": {listen + ", advertised: \"h:1\", " + two,
			"cluster.peers[0].address: is not cluster.advertised (h:1), but this is node 1; write the same address in both, or correct node.id"},
		"half of TLS": {listen + ", tls: {cert: c, ca: a}", "cluster.tls.key: is missing; TLS between nodes takes cert, key and ca; name the PEM file of the certificate's private key"},
		"idle TLS":    {"tls: {cert: c, key: k, ca: a}", "cluster.tls: has no effect, as cluster.listen is empty; set cluster.listen, or remove it"},
		"TLS":         {listen + ", tls: {cert: c, key: k, ca: a}", ""},
		"no rate":     {listen + ", transfer_rate: 0", "cluster.transfer_rate: 0 is out of range; write at least 1KiB"},
		"unknown key": {"peer: []", "cluster.peer: unknown key; did you mean cluster.peers?"},
	} {
		_, err := Parse("f", []byte("cluster: {"+c.cluster+"}\n"), testEnv(nil, nil))
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "f:1: ")
		}
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestClusterAddress(t *testing.T) {
	for text, want := range map[string]Address{
		`listen: "a:1"`: "a:1",
		`listen: "0.0.0.0:1", peers: [{id: 1, address: "b:2"}]`: "b:2",
		`listen: "a:1", advertised: "c:3"`:                      "c:3",
	} {
		cfg, err := Parse("f", []byte("cluster: {"+text+"}\n"), testEnv(nil, nil))
		if err != nil || cfg.ClusterAddress() != want {
			t.Errorf("%s: %s, %v", text, cfg.ClusterAddress(), err)
		}
	}
}

// TestClusterExamplesBelongTogether: the three files differ in what is a node's own alone.
func TestClusterExamplesBelongTogether(t *testing.T) {
	var first *Config
	racks := map[string]bool{}
	for i := int32(1); i <= 3; i++ {
		name := fmt.Sprintf("cluster/node%d.yaml", i)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := Parse(name, data, exampleEnv())
		if err != nil {
			t.Fatal(err)
		}
		host := fmt.Sprintf("rowtrail-%d", i)
		if cfg.Node.ID != i || racks[cfg.Node.Rack] || cfg.Listen.Advertised.Host() != host || cfg.ClusterAddress().Host() != host {
			t.Errorf("%s: %+v, advertised %s and %s", name, cfg.Node, cfg.Listen.Advertised, cfg.ClusterAddress())
		}
		racks[cfg.Node.Rack] = true
		if first == nil {
			first = cfg
		}
		if !reflect.DeepEqual(cfg.Cluster, first.Cluster) || !reflect.DeepEqual(cfg.Log, first.Log) {
			t.Errorf("%s: cluster or log differ from node1.yaml's", name)
		}
	}
}
