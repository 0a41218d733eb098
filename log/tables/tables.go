// Package tables verifies the files of a Badger database before it is opened. On damage Badger goes on without a table, ends
// the process with a stack trace, or, when the manifest is shorter, deletes the tables that it does not name.
package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// What Check finds.
var (
	// ErrDamaged: the manifest, or a table that it names, is missing, cut or overwritten.
	ErrDamaged = errors.New("database is damaged")
	// ErrCut: the manifest ends in the middle of an entry, and there are tables that it does not name. A power failure
	// leaves that as well as damage does.
	ErrCut = errors.New("manifest is cut")
)

// Check verifies the manifest in dir and every table that it names, block by block. Tables that it does not name may be half
// written, as a crash leaves them; they are not looked at. magic is the database's external magic number.
func Check(dir string, magic uint16) error {
	all, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return err
	}
	name := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		if len(all) > 0 {
			return fmt.Errorf("%w: %s is missing beside %d tables", ErrDamaged, name, len(all))
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	manifest, end, err := badger.ReplayManifestFile(f, magic, badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n") // some have a hint for who embeds the database
		return fmt.Errorf("%w: %s: %s", ErrDamaged, name, text)
	}
	for id := range manifest.Tables {
		path := table.NewFilename(id, dir)
		if err := checkTable(path); err != nil {
			return fmt.Errorf("%w: table %s: %w", ErrDamaged, path, err)
		}
	}
	if end == info.Size() {
		return nil
	}
	for _, t := range all {
		id, ok := table.ParseFileID(t)
		if _, named := manifest.Tables[id]; ok && !named {
			return fmt.Errorf("%w: %s ends in the middle of an entry at byte %d and does not name %s, which would be deleted",
				ErrCut, name, end, filepath.Base(t))
		}
	}
	return nil
}

var errOverwritten = errors.New("it is cut or overwritten")

func checkTable(name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return errOverwritten
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() {
		if recover() != nil { // the index's decoder does not check what it follows
			err = errOverwritten
		}
		err = errors.Join(err, syscall.Munmap(data))
	}()
	return checkTableData(data)
}

// checkTableData reads a table from its end: the index, its length, its checksum, the checksum's length.
func checkTableData(data []byte) error {
	sum, rest, err := takeSized(data)
	if err != nil {
		return err
	}
	index, blocks, err := takeSized(rest)
	if err != nil {
		return err
	}
	if err := verify(index, sum); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	root := fb.GetRootAsTableIndex(index, 0)
	for i := range root.OffsetsLength() {
		var at fb.BlockOffset
		if !root.Offsets(&at, i) || uint64(at.Offset())+uint64(at.Len()) > uint64(len(blocks)) {
			return errOverwritten
		}
		sum, block, err := takeSized(blocks[at.Offset():][:at.Len()])
		if err == nil {
			err = verify(block, sum)
		}
		if err != nil {
			return fmt.Errorf("block at byte %d: %w", at.Offset(), err)
		}
	}
	return nil
}

// takeSized takes from the end of b a field that its length follows.
func takeSized(b []byte) (field, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errOverwritten
	}
	end := len(b) - 4
	n := binary.BigEndian.Uint32(b[end:])
	if n == 0 || uint64(n) > uint64(end) {
		return nil, nil, errOverwritten
	}
	return b[end-int(n) : end], b[:end-int(n)], nil
}

func verify(b, sum []byte) error {
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil {
		return errOverwritten
	}
	return y.VerifyChecksum(b, &want)
}
