// Package chunks is the logic of MySQL's and MariaDB's loads: which statements read a table in pieces, and what of a piece may
// still be told once the stream has gone on. It does no I/O but for Read, starts no goroutine and reads no clock.
//
// # Chunks
//
// A table is read along a unique key whose columns are never NULL, the primary key if it can be, up to the largest key there was
// when its load began. The last key read is the Cursor; it and the table's state are the resume token. A table without such a key
// is read as a whole, at a position, in one consistent snapshot.
//
// # Windows
//
// A chunk is read without locks while the stream goes on. Its Window opens at S, where the stream stands, before the chunk is
// read; the chunk is read between a low and a high mark, and its rows go out between two source transactions once the stream has
// reached the high mark. The rows whose identity an event touched since S are dropped: their events have told what they are.
//
// It is right if
//   - the chunk shows every transaction up to S: the low mark, of which the chunk shows all, includes S;
//   - the stream has had every transaction that the chunk shows: the high mark, up to which the chunk shows at most, is reached.
//
// For then a row that no event touched between S and where it goes out is at that place what it was in the chunk, and a row that
// came after the chunk was read has an event. Which positions are such marks is not obvious, because a server writes a transaction
// to the binlog, from which a stream may read it, before it commits it to the engine, where a chunk sees it: see Marks.
//
// An event that does not send every column (binlog_row_image=MINIMAL) does not tell what the row is. Its columns are laid over
// the chunk's row, which is then told: whether or not the chunk shows the event already, the columns that no event sent did not
// change.
//
// # Identity
//
// A row is known by the texts of its key's columns. The server may hold other texts for equal, as 'a' and 'A' under a collation
// that ignores case, so that a row could be changed under another text than the chunk has it. That is safe: a row's images have
// its texts as they are stored, whatever text the statement named it by; so what changes the text is an event with the old text
// and the new, and touches both. The order of chunks, on the other hand, is the server's: it compares a Cursor under the column's
// own collation, by which the key is unique.
package chunks
