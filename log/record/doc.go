// Package record reads, checks, stamps, builds and rewrites Kafka record batches of format v2, the only unit that the log
// stores. It is a leaf: no I/O, no goroutines, no state beyond the buffers of a Reader, Builder or Rewriter.
//
// It enforces the part of invariant 2 that lies in the bytes: a batch that passes Validate occupies exactly
// Count consecutive offsets, so that stamping its base offset fixes the offset of each of its records. Base offset and
// leader epoch lie outside the checksum and are the only fields that Stamp rewrites in place. A Rewriter leaves records out
// or changes the codec; the batch keeps its offsets, and each record that is left keeps its bytes.
//
// What comes from a client is never trusted: every length is checked against what is left of the buffer, and
// decompression stops at a bound (invariant 9).
package record
