// Package schema says what each table is at the position of the stream: by which columns a table map's rows are decoded and
// encoded, however far the reader lags behind and whatever the tables have become since.
//
// A Book is fed in the order of the stream: statements (Book.Statement), table maps (Book.Table) and reads of the catalog
// (Book.Catalog). It answers for each table map with a Description, or asks for a look at the catalog (LookError), or says why the
// table cannot be described and which setting mends it (Error). Three truths have ranks:
//
//  1. What the table map says. With binlog_row_metadata=FULL that is names, signedness, charsets, labels, keys and, on MySQL, visibility;
//     with MINIMAL signedness and charsets; always types and whether a column can be NULL.
//  2. The description that the statements of the binlog have made, in so far as it agrees with the table map in everything that the map says.
//  3. The catalog, which is the table as it is now. A read counts only if no statement that lies between the stream's place and the end
//     of the binlog after the read may have changed the table (Ahead), and if it agrees with the table map.
//
// With FULL, what the map does not say (defaults, comments, generated columns, the display text of types, invisible columns of MariaDB)
// comes from a description that agrees; where there is none, the rows go with what is known. Only where that would leave a
// value's form open (MariaDB's UUID, INET4, INET6 and VECTOR look like binary strings) is it an Error, unless the column is left out.
//
// A statement that is not understood makes every table that it may name unknown: the next table map decides. Table maps are the check of it
// all: one that changes without a statement makes the description stale.
//
// How a reader uses it:
//
//	change := book.Statement(at, &event.Query)      // each KindQuery, but those of a GTID with StartAlter or RollbackAlter
//	d, err := book.Table(at, event.Table)            // each KindTable of a table that is captured; cheap if nothing changed
//	var look *schema.LookError
//	if errors.As(err, &look) {
//		read, err := schema.Read(ctx, session, options, look.Table)
//		// then: the end of the binlog, and every statement from here to that end, from a second dump
//		ahead := book.Ahead()                    // or one that was read before
//		ahead.Pass(here)                         // what stands before does not count
//		ahead.Reach(there); ahead.Statement(&query) // until the end, or ahead.Changes(look.Table)
//		book.Catalog(at, read, ahead)
//		d, err = book.Table(at, event.Table)     // does not ask again
//	}
//	columns, bind, err := d.Bind(nil, nil)          // event.NewSchema and binlog.NewLayout; d is the same pointer while nothing changes
//	records := book.Changes(at)                  // into the log transaction that has the events and the resume point
//
// Rows of a table that is in no list (gh-ost's _t_gho) are not the Book's business: the reader leaves them out. Their statements must
// be fed all the same: after the rename the table goes on under the captured name, with its new columns.
//
// The state is in the compacted topic <prefix>.schema-history, one record a table and database and one of the place. Changes gives the
// records that one log transaction has to hold; Restore takes them back. A Book that was restored answers as the one that wrote them.
package schema
