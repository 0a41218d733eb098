// Package state completes what row images lack: columns that a source with binlog_row_image=MINIMAL or NOBLOB leaves out, and JSON
// columns of which it sends the change alone. It is pure: whoever has the log's views asks them, and hands over what they say.
//
// # What a row is now
//
// The last committed record of the row's key, with what this connector has written since laid over it: Rows holds the latter. A key
// that Rows does not know was not changed since its record was last committed, so the view's answer is the row; a key that Rows may have
// forgotten is Lost, and nobody is asked. Rows is bounded: what is committed makes room first, as the view tells it, too; when all of
// the bound is in the open log transaction, further changes are not kept, and what they are of is Lost until they are committed.
//
// # When it counts
//
// Never a guess (invariants 6 and 7). A row of the state counts only
//   - if the source's images do not say otherwise: a column that the image before the change has, and the state has with another text,
//     makes the state of the row worthless;
//   - for columns that are the same as when it was written: of the same name and type, and since then neither dropped, renamed, changed
//     nor added (Trust). So a column that was dropped and made anew under its name is not filled with the other's values;
//   - if the log has had every change of the table since then: not across a begin anew, a gap or a table that took another's name.
//
// What cannot be completed stays absent, also in what Rows keeps.
package state
