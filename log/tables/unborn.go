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
// are flushed in order, each with a newer one behind it. Any other empty file was cut by something else, and stays for Badger
// to report.
func RemoveUnborn(dir string) error {
	for kind, flushed := range map[string]bool{"*.mem": true, "*.vlog": false} {
		files, err := filepath.Glob(filepath.Join(dir, kind)) // sorted, and numbers are padded with zeros
		if err != nil {
			return err
		}
		if len(files) == 0 {
			continue
		}
		if err := removeEmpty(files[len(files)-1]); err != nil {
			return err
		}
		if flushed {
			if err := removeEmpty(files[0]); err != nil {
				return err
			}
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
