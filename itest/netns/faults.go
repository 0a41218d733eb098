package netns

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Undo takes a fault back.
type Undo func() error

// all carries out rules in turn, or none of them.
func all(steps ...func() (Undo, error)) (Undo, error) {
	var undone []Undo
	undo := func() error {
		var errs []error
		for _, u := range slices.Backward(undone) {
			errs = append(errs, u())
		}
		return errors.Join(errs...)
	}
	for _, step := range steps {
		u, err := step()
		if err != nil {
			return nil, errors.Join(err, undo())
		}
		undone = append(undone, u)
	}
	return undo, nil
}

// rule adds a rule for what arrives at the host.
func (h *Host) rule(rule ...string) func() (Undo, error) {
	return func() (Undo, error) {
		if err := h.on(append([]string{"iptables", "-I", "INPUT"}, rule...)...); err != nil {
			return nil, err
		}
		return func() error { return h.on(append([]string{"iptables", "-D", "INPUT"}, rule...)...) }, nil
	}
}

// Deafen drops what the host would hear from others: of the two directions, one.
func (h *Host) Deafen(from ...string) (Undo, error) {
	var steps []func() (Undo, error)
	for _, address := range from {
		steps = append(steps, h.rule("-s", address, "-j", "DROP"))
	}
	return all(steps...)
}

// Part cuts the host off from other hosts, in both directions.
func (h *Host) Part(others ...*Host) (Undo, error) {
	var steps []func() (Undo, error)
	for _, o := range others {
		steps = append(steps, h.rule("-s", o.Address, "-j", "DROP"), o.rule("-s", h.Address, "-j", "DROP"))
	}
	return all(steps...)
}

// Refuse resets every connection between the host and others, and refuses new ones.
func (h *Host) Refuse(others ...*Host) (Undo, error) {
	var steps []func() (Undo, error)
	for _, o := range others {
		steps = append(steps, h.rule("-p", "tcp", "-s", o.Address, "-j", "REJECT", "--reject-with", "tcp-reset"),
			o.rule("-p", "tcp", "-s", h.Address, "-j", "REJECT", "--reject-with", "tcp-reset"))
	}
	return all(steps...)
}

// Lose drops a share of what the host would hear.
func (h *Host) Lose(share float64) (Undo, error) {
	return h.rule("-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", fmt.Sprintf("%.4f", share), "-j", "DROP")()
}

// Narrow bounds what the host sends, in bytes a second.
func (h *Host) Narrow(rate int) (Undo, error) {
	err := h.on("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", fmt.Sprintf("%dbit", 8*rate), "burst", "64kb", "latency", "200ms")
	if err != nil {
		return nil, err
	}
	return func() error { return h.on("tc", "qdisc", "del", "dev", "eth0", "root") }, nil
}

// Slow holds up what goes between the host and others at a port, each way for d and up to jitter more.
func (h *Host) Slow(d, jitter time.Duration, port int, others ...*Host) (Undo, error) {
	netem := []string{"dev", "eth0", "root", "netem", "delay", d.String(), jitter.String()}
	if h.on(append([]string{"tc", "qdisc", "add"}, netem...)...) == nil {
		return func() error { return h.on("tc", "qdisc", "del", "dev", "eth0", "root") }, nil
	}
	var steps []func() (Undo, error)
	for _, o := range others {
		steps = append(steps, h.relayed(o, port, d, jitter), o.relayed(h, port, d, jitter))
	}
	return all(steps...)
}

// relayed sends the host's connections to another through a relay of this process.
func (h *Host) relayed(to *Host, port int, d, jitter time.Duration) func() (Undo, error) {
	return func() (Undo, error) {
		r, err := startRelay(h.net.Outer+":0", fmt.Sprintf("%s:%d", to.Address, port), d, jitter)
		if err != nil {
			return nil, err
		}
		rule := []string{"OUTPUT", "-p", "tcp", "-d", to.Address, "--dport", fmt.Sprint(port), "-j", "DNAT", "--to-destination", r.address()}
		if err := h.on(append([]string{"iptables", "-t", "nat", "-I"}, rule...)...); err != nil {
			r.close()
			return nil, err
		}
		undo := func() error {
			err := h.on(append([]string{"iptables", "-t", "nat", "-D"}, rule...)...)
			r.close()
			return err
		}
		if err := h.on("ss", "-K", "dst", to.Address, "dport", "=", fmt.Sprint(port)); err != nil {
			return nil, errors.Join(err, undo())
		}
		return undo, nil
	}
}
