// Package netns makes hosts of network namespaces on one machine, and breaks the network between them.
//
// Every host has an address of its own on a switch that is a namespace, too, so that the machine's packet filter has no part in
// it; this process is on the switch with an address of its own. Cuts, refusals and losses are rules of a host's packet filter, a
// narrow line is a token bucket, and a slow one is netem where the kernel has it, or a relay: a connection that is opened while
// the line is slow goes through this process, which holds everything up; those that are open are closed before and after.
//
// It takes root, ip, tc, ss and iptables; Permitted tells what is missing.
package netns
