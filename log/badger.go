package log

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Sizes of the database. They were measured together: small memtables let deletes reach the compaction that tells which
// values may go, and a low threshold keeps batches out of the tables, which are rewritten again and again (600-byte
// batches cost half the bytes written and half the transactions of a threshold of 1 KiB; a lone commit takes as long).
const (
	memTableSize     = 4 << 20
	valueThreshold   = 128
	valueLogFileSize = 64 << 20
	baseTableSize    = 2 << 20
	blockCacheSize   = 16 << 20
	indexCacheSize   = 16 << 20
)

func badgerOptions(dir string, logger badger.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(logger).
		WithSyncWrites(true).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithCompression(options.None).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(valueLogFileSize).
		WithMemTableSize(memTableSize).
		WithNumMemtables(3).
		WithBaseTableSize(baseTableSize).
		WithNumLevelZeroTables(1).
		WithNumLevelZeroTablesStall(8).
		WithNumCompactors(2).
		WithBlockCacheSize(blockCacheSize).
		WithIndexCacheSize(indexCacheSize).
		WithMetricsEnabled(false)
}

// syncFailure is how Badger reports that a value-log file could not be synced. It acknowledges the write all the same,
// so the store has to listen.
const syncFailure = "while curlf sync"

// rewriteStarts is what Badger logs right before a garbage collection notes the newest version in the database. Deletes
// newer than that survive until the collection has ended, so that none of them can be undone by it. Badger reads that
// version without regard to a commit that is being written, whose deletes would then be missed.
const rewriteStarts = "Rewriting fid"

// badgerLogger passes on what Badger logs, stops the store on a failed sync, and lets it hold commits back while a
// garbage collection starts. Badger calls it from the goroutine that does the work.
type badgerLogger struct {
	log     *slog.Logger
	fatal   func(error)
	rewrite func()
}

// Errorf implements badger.Logger.
func (l *badgerLogger) Errorf(format string, args ...any) {
	msg := strings.TrimSpace(fmt.Sprintf(format, args...))
	if strings.Contains(format, syncFailure) {
		// Invariant 1: this runs before the write is acknowledged, and Commit looks before it returns.
		l.fatal(fmt.Errorf("sync value log: %s", msg))
	}
	l.log.Error("storage engine", "message", msg)
}

// Warningf implements badger.Logger.
func (l *badgerLogger) Warningf(format string, args ...any) {
	l.log.Warn("storage engine", "message", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof implements badger.Logger.
func (l *badgerLogger) Infof(format string, _ ...any) {
	if strings.HasPrefix(format, rewriteStarts) {
		l.rewrite()
	}
}

// Debugf implements badger.Logger.
func (l *badgerLogger) Debugf(string, ...any) {}
