// Command chaos runs mixed load against a cluster of real processes whose machines and network fail all the time, and judges what
// clients did and saw.
//
//	go run ./itest/chaos -for 10m -seed N
//
// Every node is a `rowtrail serve` in a network namespace (package netns) with an address, a rack and a disk of its own (a small
// tmpfs). The load is that of the transaction checker (packages load and history), through its proxies, one before every node,
// which repeat, delay and reorder requests; and the registers: a topic of single records whose partitions must be linearizable
// lists (porcupine): every append stands where its answer said, and every answer to a question for a partition's end was true at
// some moment between question and answer.
//
// The faults are in plan.go: kills of one node and of all, pauses, cuts of the network that are whole, partial and one-way, by
// silence and by resets, lost packets, slow and narrow lines, full, wiped and truncated disks, a wall clock that jumps, rolling
// restarts, leadership transfers, reassignments and replaced nodes; and two of them at once. What destroys acknowledged records on
// one disk waits until all replicas are in sync, since no protocol can keep what is lost on a majority. Everything is healed before
// the end; then all nodes are killed, and what they have on their disks is judged.
//
// What cannot be done to one process: CLOCK_MONOTONIC does not jump (no machine's does), and the wall clock moves by a patched vDSO
// on amd64 alone (itest/clock). Between nodes there is netem only where the kernel has it; elsewhere what they send passes relays.
//
// Faults and load are drawn from the seed, which is printed. Threads and the machine still differ from run to run: a seed repeats the
// faults and their order, and not every step. A failed run keeps its operations, and the nodes' logs and data.
package main
