package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// fold names what one partition's entries are found by.
type fold struct {
	topic     string
	partition int32
}

// topic is what is known of a topic's partitions. It is never changed: another one takes its place.
type topic struct {
	name  string
	parts []*partition // nil: not here
}

// choose picks partitions; none: all that the topic has.
func (t *topic) choose(numbers []int32) ([]*partition, error) {
	if len(numbers) == 0 {
		for i, p := range t.parts {
			if p == nil {
				return nil, &ElsewhereError{Topic: t.name, Partition: int32(i)}
			}
		}
		return t.parts, nil
	}
	parts := make([]*partition, 0, len(numbers))
	for _, n := range numbers {
		if n < 0 || int(n) >= len(t.parts) || t.parts[n] == nil {
			return nil, &ElsewhereError{Topic: t.name, Partition: n}
		}
		parts = append(parts, t.parts[n])
	}
	return parts, nil
}

// Follow makes a topic's partitions, in order of their numbers, known; nil: the partition cannot be read here. It is called again when
// partitions come, go or are replaced: what is folded of the others goes on. What is folded of one that has gone is kept until Discard, and a topic
// deleted and created again under its name is recognised.
func (v *Views) Follow(name string, parts []Source) {
	if v.enter() != nil {
		return
	}
	defer v.leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.follow(name, parts); err != nil {
		// Queries say that the topic is not followed, and the next call tries again.
		v.logger.Error("cannot follow topic", "topic", name, "error", err)
	}
}

func (v *Views) follow(name string, parts []Source) error {
	t := &topic{name: name, parts: make([]*partition, len(parts))}
	if old := v.topics[name]; old != nil {
		for i, p := range old.parts {
			switch {
			case p == nil:
			case i < len(parts) && parts[i] == p.src:
				t.parts[i] = p
			default:
				p.drop() // what folds for it now finishes; whoever takes its place starts from what it wrote
			}
		}
	}
	for i, src := range parts {
		if t.parts[i] != nil || src == nil {
			continue
		}
		p, err := v.begin(fold{name, int32(i)}, src)
		if err != nil {
			for _, p := range t.parts {
				p.drop()
			}
			delete(v.topics, name)
			return err
		}
		t.parts[i] = p
	}
	v.topics[name] = t
	return nil
}

// begin goes on with a fold, or starts it.
func (v *Views) begin(f fold, src Source) (*partition, error) {
	id, known := v.ids[f]
	if !known {
		id = v.lastID + 1
		err := v.db.Update(func(txn *badger.Txn) error {
			return txn.Set(foldKey(f), binary.BigEndian.AppendUint32(nil, id))
		})
		if err != nil {
			return nil, fmt.Errorf("register partition %d of %s: %w", f.partition, f.topic, err)
		}
		v.lastID, v.ids[f] = id, id
	}
	var p *partition
	err := v.db.View(func(txn *badger.Txn) error {
		st, err := readState(txn, id)
		if err != nil {
			return err
		}
		p = newPartition(id, f, src, st)
		p.truncated = hasTruncate(txn, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("follow partition %d of %s: %w", f.partition, f.topic, err)
	}
	return p, nil
}

func readState(txn *badger.Txn, id uint32) (st state, err error) {
	item, err := txn.Get(stateKey(id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	err = item.Value(func(b []byte) error {
		st, err = parseState(b)
		return err
	})
	return st, err
}

// drop ends all writing to a partition's fold; nil has none.
func (p *partition) drop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.dropped = true
	p.mu.Unlock()
}

func (p *partition) isDropped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Discard deletes what is folded of a partition that Follow was not given. It is folded anew should it come back.
func (v *Views) Discard(name string, partition int32) {
	if v.enter() != nil {
		return
	}
	defer v.leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.topics[name]; t != nil && int(partition) < len(t.parts) && t.parts[partition] != nil {
		return
	}
	if err := v.retire(fold{name, partition}, 0); err != nil {
		v.logger.Error("cannot discard partition", "topic", name, "partition", partition, "error", err)
	}
}

// Forget removes a deleted topic's view. Its entries are deleted in the background.
func (v *Views) Forget(name string) {
	if v.enter() != nil {
		return
	}
	defer v.leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.topics[name]; t != nil {
		for _, p := range t.parts {
			p.drop()
		}
		delete(v.topics, name)
	}
	for f := range v.ids {
		if f.topic != name {
			continue
		}
		if err := v.retire(f, 0); err != nil {
			v.logger.Error("cannot forget topic", "topic", name, "partition", f.partition, "error", err)
		}
	}
}

// retire marks a fold's id as dead and gives it the next one, or none, in one transaction.
func (v *Views) retire(f fold, next uint32) error {
	id, known := v.ids[f]
	if !known {
		return nil
	}
	err := v.db.Update(func(txn *badger.Txn) error {
		if err := txn.Set(deadKey(id), nil); err != nil {
			return err
		}
		if next == 0 {
			return txn.Delete(foldKey(f))
		}
		return txn.Set(foldKey(f), binary.BigEndian.AppendUint32(nil, next))
	})
	if err != nil {
		return fmt.Errorf("retire the fold of partition %d of %s: %w", f.partition, f.topic, err)
	}
	delete(v.ids, f)
	v.dead = append(v.dead, id)
	if next != 0 {
		v.ids[f], v.lastID = next, next
	}
	return nil
}

// Rebuild drops what is folded of a topic and folds its log again (invariant 8).
func (v *Views) Rebuild(ctx context.Context, name string) error {
	if err := v.enter(); err != nil {
		return err
	}
	defer v.leave()
	t, err := v.lookup(name)
	if err != nil {
		return err
	}
	var here []int32
	for i, p := range t.parts {
		if p == nil {
			continue
		}
		if err := v.replace(p); err != nil {
			return err
		}
		here = append(here, int32(i))
	}
	if len(here) == 0 {
		return nil
	}
	_, err = v.current(ctx, name, here...)
	return err
}

// replace starts a new, empty fold in place of p, unless somebody did already.
func (v *Views) replace(p *partition) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.topics[p.topic]
	if old == nil || int(p.number) >= len(old.parts) || old.parts[p.number] != p {
		return nil
	}
	p.drop()
	parts := make([]Source, len(old.parts))
	for i, have := range old.parts {
		if have != nil && have != p {
			parts[i] = have.src
		}
	}
	src := p.src
	if err := v.follow(p.topic, parts); err != nil {
		return err
	}
	if err := v.retire(fold{p.topic, p.number}, v.lastID+1); err != nil {
		return err
	}
	parts[p.number] = src
	return v.follow(p.topic, parts)
}

func (v *Views) replaceOther(p *partition) error {
	v.logger.Warn("partition's log is another than the one that was folded; folding it again", "topic", p.topic, "partition", p.number)
	return v.replace(p)
}

func (v *Views) lookup(name string) (*topic, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.topics[name]
	if t == nil {
		return nil, fmt.Errorf("view of topic %s: %w", name, ErrUnknownTopic)
	}
	return t, nil
}

// current returns partitions of a topic, none named: all, that have caught up with the last stable offsets of this moment, without throttling.
func (v *Views) current(ctx context.Context, name string, numbers ...int32) ([]*partition, error) {
	for {
		t, err := v.lookup(name)
		if err != nil {
			return nil, err
		}
		parts, err := t.choose(numbers)
		if err != nil {
			return nil, err
		}
		var last *partition
		for _, last = range parts {
			if err = last.catchUp(ctx, v.db.DB, last.src.Marks().LastStable); err != nil {
				break
			}
		}
		switch {
		case err == nil:
			return parts, nil
		case errors.Is(err, errDropped):
			continue // another one has taken its place, or it has gone
		case errors.Is(err, errOtherLog):
			if err := v.replaceOther(last); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("view of topic %s: %w", name, err)
		}
	}
}

// Lag is how many offsets of a topic's partitions that are here are committed and not folded yet.
func (v *Views) Lag(name string) int64 {
	t, err := v.lookup(name)
	if err != nil {
		return 0
	}
	lag := int64(0)
	for _, p := range t.parts {
		if p != nil {
			lag += p.behind()
		}
	}
	return lag
}

func (v *Views) all() []*partition {
	v.mu.Lock()
	defer v.mu.Unlock()
	var list []*partition
	for _, t := range v.topics {
		for _, p := range t.parts {
			if p != nil {
				list = append(list, p)
			}
		}
	}
	return list
}
