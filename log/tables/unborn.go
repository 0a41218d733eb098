package tables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// RemoveUnborn removes the newest memtable's and value log's file in dir where it is empty: a process that was killed right after
// it created the file leaves it so. It holds nothing, and Badger refuses to open a database that has one. An empty file that
// is not the newest of its kind was cut later, and stays for Badger to report.
func RemoveUnborn(dir string) error {
	for _, kind := range []string{"*.mem", "*.vlog"} {
		files, err := filepath.Glob(filepath.Join(dir, kind)) // sorted, and numbers are padded with zeros
		if err != nil {
			return err
		}
		if len(files) == 0 {
			continue
		}
		newest := files[len(files)-1]
		info, err := os.Stat(newest)
		if err == nil && info.Size() == 0 {
			err = os.Remove(newest)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove what a crash left of a new file: %w", err)
		}
	}
	return nil
}
