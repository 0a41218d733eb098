package chunks

const (
	// DefaultRows is how many rows the first chunk of a table has (incremental.snapshot.chunk.size).
	DefaultRows = 1024
	// chunkBytes is how large chunks become: large enough that the round trips of one are little, small enough to be read in a
	// moment, as the window's work grows with the time that a chunk takes.
	chunkBytes = 2 << 20
	minRows    = 16
	maxRows    = 1 << 16
	// growth is how much larger than the last a chunk may be: the rows that come need not be like those that were.
	growth = 4
)

// nextRows is how many rows to read after a chunk of so many rows and bytes.
func nextRows(limit, rows int, bytes int64) int {
	if rows == 0 {
		return limit
	}
	n := int64(chunkBytes) * int64(rows) / max(bytes, 1)
	return int(min(max(n, minRows), int64(limit)*growth, maxRows))
}
