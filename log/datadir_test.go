package log

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLockedDirectoryNamesItsOwner(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	_, err := Open(dir, Options{MinFreeBytes: 1})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFormat(t *testing.T) {
	dir := t.TempDir()
	if err := mustOpen(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, formatName)
	for content, want := range map[string]string{
		fmt.Sprintf("%s %d\n", formatTag, formatVersion+1): "upgrade",
		"something else\n": "another data directory",
		"":                 "another data directory",
		formatTag + " 0":   "no release",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{MinFreeBytes: 1}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("format %q: %v", content, err)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{MinFreeBytes: 1}); !errors.Is(err, ErrFormat) {
		t.Errorf("a database without a format file: %v", err)
	}
}
