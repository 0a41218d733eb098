// Package postgres applies change events to a Postgres database.
//
// Files: config (properties), check (what a human must mend, with the SQL), target and session (connection, target
// transaction), state (offsets and fencing), catalog, evolve and enum (target tables and types, and what is created), window
// (operations waiting for one round trip), statements and flush (how they are written), foreign (records of other
// producers), errors (what trying again mends).
//
// A value travels as the source's text and is cast by the target to the column's own type without a length, so that the
// target's assignment rules refuse what does not fit instead of cutting it off.
//
// Rows are written by the record's key alone: INSERT ... ON CONFLICT (key) DO UPDATE, DELETE by key. Another unique
// index never decides which row is meant: hitting one is an error. Operations of one round trip are folded to one per
// key; when the folded form offends a unique index, a foreign key or an exclusion constraint, the round trip is
// repeated one by one in source order, which is how the source went through it. Tables with row triggers are always
// written in source order.
//
// Rows travel as one text array per column (unnest), in one pipeline per window. COPY into a temporary table and a merge from
// there takes the server 0.9 to 1.0 times as long per row (4.3 against 4.7 microseconds of its CPU for an insert of six
// columns, 6.7 against 6.7 for an update), and costs small windows more; so there is one way for all sizes.
//
// Invariant 4: rows, offsets and the check of the session's epoch are one target transaction. Opening a session raises the
// epoch under a row lock that a commit in flight holds, so a session before it has either committed, and its offsets are
// read, or fails with ErrFenced.
//
// Invariant 6: a column that the source did not send is not written. A row with such columns is updated, never inserted: when
// the target does not have it, the sink stops. A key change whose create has such columns gives the row under the old key its
// new one.
//
// Schemas, enum types and their labels are created on a connection beside the session's and stay when the target transaction
// is rolled back: the server lets no transaction use a label before it is committed. Tables and columns are part of the
// target transaction.
//
// What does not travel: columns that the source renames arrive as new ones, and defaults of new columns are not applied to
// rows that are there.
package postgres
