package cluster

import (
	"context"
	"fmt"
	"log/slog"
)

// raftLogger sends Raft's messages to slog. Elections of a thousand groups are no news, so Info becomes Debug.
// Raft relies on Panic and Fatal not to return. A Raft panic (a broken invariant, a failed read of the log) is caught by
// the worker, which halts the node.
type raftLogger struct{ l *slog.Logger }

func (r raftLogger) log(level slog.Level, text func() string) {
	if r.l.Enabled(context.Background(), level) {
		r.l.Log(context.Background(), level, text(), "component", "raft")
	}
}

func (r raftLogger) Debug(v ...any) {
	r.log(slog.LevelDebug, func() string { return fmt.Sprint(v...) })
}
func (r raftLogger) Debugf(f string, v ...any) {
	r.log(slog.LevelDebug, func() string { return fmt.Sprintf(f, v...) })
}
func (r raftLogger) Info(v ...any)            { r.Debug(v...) }
func (r raftLogger) Infof(f string, v ...any) { r.Debugf(f, v...) }
func (r raftLogger) Warning(v ...any) {
	r.log(slog.LevelWarn, func() string { return fmt.Sprint(v...) })
}
func (r raftLogger) Warningf(f string, v ...any) {
	r.log(slog.LevelWarn, func() string { return fmt.Sprintf(f, v...) })
}
func (r raftLogger) Error(v ...any) {
	r.log(slog.LevelError, func() string { return fmt.Sprint(v...) })
}
func (r raftLogger) Errorf(f string, v ...any) {
	r.log(slog.LevelError, func() string { return fmt.Sprintf(f, v...) })
}
func (r raftLogger) Fatal(v ...any)            { r.Panic(v...) }
func (r raftLogger) Fatalf(f string, v ...any) { r.Panicf(f, v...) }

//nolint:forbidigo // see raftLogger
func (r raftLogger) Panic(v ...any) { panic(fmt.Sprint(v...)) }

//nolint:forbidigo // see raftLogger
func (r raftLogger) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
