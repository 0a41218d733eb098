package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// hashFiles is a sum over the names and contents of all files below dir: it tells whether a client has to be built again.
func hashFiles(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", path, len(content))
		sum.Write(content)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
