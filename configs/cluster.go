package configs

import "fmt"

// Enabled tells whether nodes speak TLS to each other.
func (t ClusterTLS) Enabled() bool { return t.Cert != "" }

// Enabled tells whether there may be other nodes.
func (c Cluster) Enabled() bool { return c.Listen != "" }

// ClusterAddress is where other nodes reach this one: as configured, else as peers says, else where it listens.
func (c *Config) ClusterAddress() Address {
	if c.Cluster.Advertised != "" {
		return c.Cluster.Advertised
	}
	for _, p := range c.Cluster.Peers {
		if p.ID == c.Node.ID {
			return p.Address
		}
	}
	return c.Cluster.Listen
}

func (v *validator) cluster() {
	c := v.cfg.Cluster
	if c.Listen == "" {
		if len(c.Peers) > 0 {
			v.add("cluster.listen", "is missing beside peers", "write the host:port of this machine where the other nodes connect, as 10.0.0.1:9094")
		}
		if c.Advertised != "" {
			v.add("cluster.advertised", "has no effect, as cluster.listen is empty", "set cluster.listen, or remove it")
		}
	}
	for key, other := range map[string]Address{"listen.kafka": v.cfg.Listen.Kafka, "listen.http": v.cfg.Listen.HTTP} {
		if c.Listen != "" && c.Listen == other && c.Listen.Port() != 0 {
			v.add("cluster.listen", fmt.Sprintf("is the same address as %s (%s)", key, other), "give each its own port")
		}
	}
	v.peers()
	v.reachable()
	v.clusterTLS()
}

// peers checks that each node and each address is there once.
func (v *validator) peers() {
	ids, addresses := map[int32]bool{}, map[Address]bool{}
	for i, p := range v.cfg.Cluster.Peers {
		path := fmt.Sprintf("cluster.peers[%d]", i)
		if v.brokenBelow(path) {
			continue
		}
		switch {
		case ids[p.ID]:
			v.add(path+".id", fmt.Sprintf("node %d is there twice", p.ID), "keep one of them")
		case addresses[p.Address]:
			v.add(path+".address", fmt.Sprintf("%s is there twice", p.Address), "give each node its own address")
		case p.Address.Wildcard() || p.Address.Port() == 0:
			v.add(path+".address", fmt.Sprintf("%s is no address to connect to", p.Address), "write the host:port where the other nodes reach it")
		case p.ID == v.cfg.Node.ID && v.cfg.Cluster.Advertised != "" && v.cfg.Cluster.Advertised != p.Address:
			v.add(path+".address", fmt.Sprintf("is not cluster.advertised (%s), but this is node %d", v.cfg.Cluster.Advertised, p.ID), "write the same address in both, or correct node.id")
		}
		ids[p.ID], addresses[p.Address] = true, true
	}
}

// reachable checks that there is an address to tell other nodes.
func (v *validator) reachable() {
	c := v.cfg.Cluster
	switch {
	case v.brokenBelow("cluster"):
	case c.Advertised.Wildcard():
		v.add("cluster.advertised", fmt.Sprintf("%s is no address to connect to", c.Advertised), "write the host:port that the other nodes reach")
	case c.Listen.Wildcard() && v.cfg.ClusterAddress() == c.Listen:
		v.add("cluster.listen", fmt.Sprintf("%s stands for all addresses, which no node can connect to", c.Listen),
			"set cluster.advertised to the host:port that the other nodes reach, or name this node in cluster.peers")
	}
}

func (v *validator) clusterTLS() {
	t := v.cfg.Cluster.TLS
	if t == (ClusterTLS{}) {
		return
	}
	for _, f := range []struct{ key, value, what string }{
		{"cert", t.Cert, "this node's certificate"}, {"key", t.Key, "the certificate's private key"}, {"ca", t.CA, "the authorities that sign the nodes' certificates"},
	} {
		if f.value == "" {
			v.add("cluster.tls."+f.key, "is missing; TLS between nodes takes cert, key and ca", "name the PEM file of "+f.what)
		}
	}
	if v.cfg.Cluster.Listen == "" {
		v.add("cluster.tls", "has no effect, as cluster.listen is empty", "set cluster.listen, or remove it")
	}
}
