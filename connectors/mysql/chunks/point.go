package chunks

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// Point is a position in a source: a set of GTIDs, a place in a binlog file of one server, or both.
type Point struct {
	GTIDs  *gtid.Set
	Server string // that has the file, its server_uuid or server_id; "": not told
	File   string
	Pos    uint64
}

// ErrServer tells that positions are of files of two servers: what was read between them must be read again.
var ErrServer = errors.New("the positions are of two servers")

// Includes says whether at p everything up to o has happened. They are compared by everything that both tell.
func (p Point) Includes(o Point) (bool, error) {
	gtids, files := p.GTIDs != nil && o.GTIDs != nil, p.File != "" && o.File != ""
	if !gtids && !files {
		return false, errors.New("one position is a GTID set, the other is a file's: they do not compare")
	}
	if files {
		if p.Server != "" && o.Server != "" && p.Server != o.Server {
			return false, fmt.Errorf("%w, %s and %s", ErrServer, p.Server, o.Server)
		}
		n, err := fileNumber(p.File)
		if err != nil {
			return false, err
		}
		m, err := fileNumber(o.File)
		if err != nil {
			return false, err
		}
		if n < m || n == m && p.Pos < o.Pos {
			return false, nil
		}
	}
	return !gtids || p.GTIDs.ContainsSet(o.GTIDs), nil
}

// fileNumber is the number at the end of a binlog file's name, which grows a digit after 999999.
func fileNumber(file string) (uint64, error) {
	n, err := strconv.ParseUint(file[strings.LastIndexByte(file, '.')+1:], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("binlog file %q: its name does not end with a number", file)
	}
	return n, nil
}
