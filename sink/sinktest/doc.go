// Package sinktest is the conformance suite that every type of sink passes, and what it is made of: a log with a
// connector's topics, a random source, and a target in memory.
//
// Run checks what a user relies on: whole transactions in source order (invariant 5), exactly once across restarts, broken
// connections and a reset group (invariant 4), fencing (invariant 4), absent columns (invariant 6), and that a record that
// cannot be applied stops the sink at its place (invariant 7).
package sinktest
