package load

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/rowtrail/rowtrail/itest/checker/history"
)

// maxKept bounds the operations that a failed run keeps: those of its violations, and the last ones.
const maxKept = 200_000

// Keep writes operations and violations to a directory.
func (l *Load) Keep(dir string, violations []history.Violation, text string) error {
	h := &l.h
	f, err := os.Create(filepath.Join(dir, "operations.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	line := func(i int) error {
		return enc.Encode(struct {
			Number int
			history.Op
		}{i, h.Ops[i]})
	}
	first := max(0, len(h.Ops)-maxKept)
	written := map[int]bool{}
	for _, v := range violations {
		for _, i := range v.Ops {
			if i < first && !written[i] {
				written[i] = true
				if err := line(i); err != nil {
					return err
				}
			}
		}
	}
	for i := first; i < len(h.Ops); i++ {
		if err := line(i); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "violations.txt"), []byte(text+"\n"), 0o644)
}
