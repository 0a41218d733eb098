// Package connectors is the runtime that all sources share: the exactly-once writer of the log, topic creation, the
// resume point, supervision with backoff, and status.
//
// A source hands over batches of encoded records. Between records it places marks: points where a source transaction
// is complete. The Writer streams records into the open log transaction as they come and ends it only at a mark, so a log
// transaction always holds whole source transactions (invariant 5) however large one is, without buffering it
// (invariant 9: every queue here has a bound in bytes). The mark's resume point is written in the same log transaction
// (invariant 3), and OnCommit, which lets the source confirm its position, runs only after the commit (invariant 1).
//
// A log transaction is ended when nothing more is waiting, or when it has reached a size or an age: commits grow under
// load and are immediate when idle.
//
// Crash argument. Whatever happens to the process, the log's coordinator either completes the open transaction (its
// commit had been decided) or aborts it. InitProducerID of the next run waits for that and fences the former
// instance; then the resume point is read, which by invariant 3 names exactly what is in the log.
package connectors
