// Package snapshot holds the place of the views until they are part of the build; every question is answered with ErrAbsent.
package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// ErrAbsent says that this build has no views.
var ErrAbsent = errors.New("this build has no state and history views")

type Options struct{ Logger *slog.Logger }
type Views struct{}

func Open(dir string, opts Options) (*Views, error)  { return &Views{}, nil }
func (v *Views) Close() error                        { return nil }
func (v *Views) Run(ctx context.Context) error       { <-ctx.Done(); return nil }
func (v *Views) Follow(topic string, parts []Source) {}
func (v *Views) Forget(topic string)                 {}

type Source interface {
	Marks() log.Marks
	Changed() <-chan struct{}
	Read(offset int64, maxBytes int, minOne bool, iso log.Isolation) (log.ReadResult, error)
}
type At struct {
	Now      bool
	Offset   *int64
	Time     *time.Time
	Position *uint64
}
type Row struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  time.Time
	CommitTime time.Time
	Position   uint64
	Key, Value []byte
	Deleted    bool
}

func (v *Views) Latest(ctx context.Context, topic string, key []byte, at At) (Row, bool, error) {
	return Row{}, false, ErrAbsent
}
func (v *Views) Scan(ctx context.Context, topic string, at At, fn func(Row) error) error {
	return ErrAbsent
}
func (v *Views) History(ctx context.Context, topic string, key []byte, fn func(Row) error) error {
	return ErrAbsent
}
func (v *Views) Rebuild(ctx context.Context, topic string) error { return nil }
func (v *Views) Lag(topic string) int64                          { return 0 }
