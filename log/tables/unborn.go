package tables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// RemoveUnborn removes files of a Badger database that are empty because a process was killed: right after it created one, and
// right before it removed one, which Badger empties first. Badger refuses to open a database that has such a file. The newest
// memtable's and value log's file may have been created only; the oldest memtable's may have been flushed to a table, as memtables
// are flushed in order, each with a newer one behind it; any value log's file may have been collected. A memtable's file in between was cut
// by something else, and stays for Badger to report. Where a value log's file was, each value that a key still names in it is an error of
// whoever reads it, so nothing that was damaged goes without being said.
func RemoveUnborn(dir string) error {
	memtables, err := filepath.Glob(filepath.Join(dir, "*.mem")) // sorted, and numbers are padded with zeros
	if err != nil {
		return err
	}
	candidates, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		return err
	}
	if n := len(memtables); n > 0 {
		candidates = append(candidates, memtables[0], memtables[n-1])
	}
	for _, file := range candidates {
		if err := removeEmpty(file); err != nil {
			return err
		}
	}
	return nil
}

func removeEmpty(file string) error {
	info, err := os.Stat(file)
	if err == nil && info.Size() == 0 {
		err = os.Remove(file)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what a crash left of a file: %w", err)
	}
	return nil
}
