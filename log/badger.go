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
	// baseLevelSize keeps the keys of some 700,000 batches in one level, where each compaction meets the deletes with what they
	// delete. In more levels deletes wait for their turn, and the values' disk space with them.
	baseLevelSize  = 64 << 20
	blockCacheSize = 16 << 20
	indexCacheSize = 16 << 20
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
		WithBaseLevelSize(baseLevelSize).
		WithNumLevelZeroTables(1).
		WithNumLevelZeroTablesStall(8).
		WithNumCompactors(2).
		WithBlockCacheSize(blockCacheSize).
		WithIndexCacheSize(indexCacheSize).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithMetricsEnabled(false)
}

// syncFailure is how Badger reports that a value-log file could not be synced. It acknowledges the write all the same,
// so the store has to listen.
const syncFailure = "while curlf sync"

// collectionChosen is what Badger logs once a collection has chosen a value-log file.
const collectionChosen = "Found value log max discard fid"

// rewriteStarts is what Badger logs right before a collection reads the newest version.
const rewriteStarts = "Rewriting fid"

// badgerLogger passes on what Badger logs and stops the store on a failed sync. Badger calls it from the goroutine that
// does the work.
type badgerLogger struct {
	log   *slog.Logger
	fatal func(error)
	// collecting is called with the number of the value-log file that a garbage collection has chosen, before it touches
	// anything. An error is thrown through Badger, as a panic, to whoever asked for the collection: there is no other way
	// to stop one, and at this place Badger holds nothing that is not released on the way.
	collecting func(fid uint32) error
	rewriting  func() // nil: not called
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
	msg := strings.TrimSpace(fmt.Sprintf(format, args...))
	if strings.Contains(msg, "cache might be too small") || strings.Contains(msg, "Cache life expectancy") {
		return // every few minutes; the caches are small on purpose
	}
	l.log.Warn("storage engine", "message", msg)
}

// Infof implements badger.Logger.
func (l *badgerLogger) Infof(format string, args ...any) {
	if l.rewriting != nil && strings.HasPrefix(format, rewriteStarts) {
		l.rewriting()
	}
	if !strings.HasPrefix(format, collectionChosen) || len(args) == 0 || l.collecting == nil {
		return
	}
	if fid, ok := args[0].(uint32); ok {
		if err := l.collecting(fid); err != nil {
			panic(err) //nolint:forbidigo // collectFile recovers it; there is no other way to stop a collection
		}
	}
}

// Debugf implements badger.Logger.
func (l *badgerLogger) Debugf(string, ...any) {}
