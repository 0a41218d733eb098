package daemon

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/rowtrail/rowtrail/configs"
)

// listen takes the ports. Connections wait in the kernel until the servers accept them.
func (d *Daemon) listen() error {
	var err error
	if !d.external() {
		if d.kafka, err = listenOn("listen.kafka", d.cfg.Listen.Kafka); err != nil {
			return err
		}
	}
	if d.cfg.Cluster.Enabled() {
		if d.peers, err = listenOn("cluster.listen", d.cfg.Cluster.Listen); err != nil {
			return err
		}
	}
	if d.cfg.Listen.HTTP == "" {
		return nil
	}
	d.http, err = listenOn("listen.http", d.cfg.Listen.HTTP)
	return err
}

func listenOn(key string, address configs.Address) (net.Listener, error) {
	l, err := net.Listen("tcp", string(address))
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is taken by another process; stop it, or set %s to a free port", address, key)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: this user may not use the port; set %s to a port above 1023", address, key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on %s: this machine has no such address; set %s to one of its own", address, key)
	}
	return nil, fmt.Errorf("listen on %s: %w; set %s to an address of this machine", address, err, key)
}

// advertised is what clients are told to dial: as configured, else the host that was configured and the port that was bound.
func (d *Daemon) advertised() (string, int32) {
	address := d.cfg.Listen.Advertised
	bound := configs.Address(d.kafka.Addr().String())
	if address == "" {
		return d.cfg.Listen.Kafka.Host(), int32(bound.Port()) //nolint:gosec // a port
	}
	if address.Port() == 0 {
		return address.Host(), int32(bound.Port()) //nolint:gosec // a port
	}
	return address.Host(), int32(address.Port()) //nolint:gosec // a port
}

// clusterAddress is what other nodes are told to dial; "" when there are none.
func (d *Daemon) clusterAddress() string {
	if d.peers == nil {
		return ""
	}
	address := d.cfg.ClusterAddress()
	if address.Port() == 0 {
		bound := configs.Address(d.peers.Addr().String())
		return net.JoinHostPort(address.Host(), strconv.Itoa(bound.Port()))
	}
	return string(address)
}

// KafkaAddress is where the Kafka listener is bound; "" when the log is in another cluster.
func (d *Daemon) KafkaAddress() string {
	if d.kafka == nil {
		return ""
	}
	return d.kafka.Addr().String()
}

// HTTPAddress is where the admin endpoint is bound; "" when there is none.
func (d *Daemon) HTTPAddress() string {
	if d.http == nil {
		return ""
	}
	return d.http.Addr().String()
}

// seed is the address that in-process clients name; the dialer takes them to the broker whatever it says.
func (d *Daemon) seed() string {
	host, port := d.advertised()
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
