package tables

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// Logger passes on Badger's warnings and errors. What Badger tells of its own work stays unsaid.
type Logger struct {
	log    *slog.Logger
	who    string
	opened atomic.Bool
}

// NewLogger returns the badger.Logger of a database that is about to be opened; who names it in the node's log.
func NewLogger(log *slog.Logger, who string) *Logger { return &Logger{log: log, who: who} }

// Opened tells that the database is open. Before that an error is returned as well, and is for the caller to tell.
func (l *Logger) Opened() { l.opened.Store(true) }

// Errorf implements badger.Logger.
func (l *Logger) Errorf(format string, args ...any) {
	if l.opened.Load() {
		l.log.Error(l.who, "message", message(format, args))
	}
}

// Warningf implements badger.Logger.
func (l *Logger) Warningf(format string, args ...any) {
	l.log.Warn(l.who, "message", message(format, args))
}

// Infof implements badger.Logger.
func (l *Logger) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (l *Logger) Debugf(string, ...any) {}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
