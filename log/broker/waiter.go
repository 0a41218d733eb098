package broker

import (
	"reflect"
	"time"
)

const (
	// fixedWatch is how many partitions are waited for by one plain select; a Fetch of more uses reflection.
	fixedWatch = 8
	// maxWatched bounds the partitions that one Fetch watches. A Fetch of more waits for watchGap at most.
	maxWatched = 8 << 10
	watchGap   = 100 * time.Millisecond
)

// waiter waits for any of a Fetch's partitions to change, without a goroutine for each.
type waiter struct {
	timeout <-chan time.Time
	catalog <-chan struct{}
	done    <-chan struct{}
	cases   []reflect.SelectCase
}

// wait returns the index of a partition that changed, or -1 when waiting is over.
func (w *waiter) wait(parts []fetchPart) int {
	if len(parts) > fixedWatch {
		return w.waitMany(parts)
	}
	var c [fixedWatch]<-chan struct{} // nil channels are never ready
	for i := range parts {
		if parts[i].log != nil {
			c[i] = parts[i].changed
		}
	}
	select {
	case <-c[0]:
		return 0
	case <-c[1]:
		return 1
	case <-c[2]:
		return 2
	case <-c[3]:
		return 3
	case <-c[4]:
		return 4
	case <-c[5]:
		return 5
	case <-c[6]:
		return 6
	case <-c[7]:
		return 7
	case <-w.timeout:
	case <-w.catalog:
	case <-w.done:
	}
	return -1
}

// waitMany keeps its cases between calls: only the partition that changed needs a new channel.
func (w *waiter) waitMany(parts []fetchPart) int {
	const own = 3 // cases ahead of the partitions'
	if w.cases == nil {
		w.cases = make([]reflect.SelectCase, own+min(len(parts), maxWatched))
		for i := range w.cases {
			w.cases[i].Dir = reflect.SelectRecv
		}
		w.cases[0].Chan = reflect.ValueOf(w.timeout)
		w.cases[1].Chan = reflect.ValueOf(w.catalog)
		w.cases[2].Chan = reflect.ValueOf(w.done)
		for i := own; i < len(w.cases); i++ {
			if p := &parts[i-own]; p.log != nil {
				w.cases[i].Chan = reflect.ValueOf(p.changed)
			}
		}
	}
	i, _, _ := reflect.Select(w.cases)
	if i < own {
		return -1
	}
	// Taken before the caller looks at the partition, so no change falls between.
	w.cases[i].Chan = reflect.ValueOf(parts[i-own].log.Changed())
	return i - own
}
