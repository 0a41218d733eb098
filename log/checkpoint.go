package log

import "fmt"

// How much may be applied before a checkpoint is due. Opening scans what lies behind the checkpoints: these bounds keep that to
// a fraction of a second, for one busy partition and for all together.
const (
	checkpointEntries = 8192
	checkpointBytes   = 64 << 20
	tailEntries       = 64 << 10 // of all partitions
	// checkpointShare keeps a large checkpoint (many producers) from being written for every few entries.
	checkpointShare = 8
)

// checkpointState counts what was applied since the partition's last checkpoint.
type checkpointState struct {
	entries int64
	bytes   int64
	size    int64 // of the stored checkpoint
}

func (c *checkpointState) note(size int64) {
	c.entries++
	c.bytes += size
}

func (c *checkpointState) due() bool {
	return c.bytes >= checkpointBytes || c.entries >= checkpointEntries && c.bytes >= checkpointShare*c.size
}

// markDue makes the next Commit look at p. p.mu may be held.
func (s *Store) markDue(p *Partition) {
	s.mu.Lock()
	s.due[p] = struct{}{}
	s.mu.Unlock()
}

// addCheckpoint gathers p's fold, and its horizon and manifest when they have moved. The hard state goes along with its commit
// index at what the fold has applied: without the checkpoint, that far the entries may be applied again on opening.
func (c *commit) addCheckpoint(p *Partition) error {
	p.mu.RLock()
	fold := p.fold.encode()
	var base, runs []byte
	moved := p.retire.moved
	if moved > 0 {
		b := p.fold.base()
		base = b.encode()
		if p.runs.man.nextRun > 0 {
			runs = p.runs.man.encode()
		}
	}
	hard := p.hard
	if v := c.views[p.id]; v != nil && v.hard != nil {
		hard = *v.hard // gathered into this very transaction
	}
	hard.Commit = max(hard.Commit, p.fold.applied)
	covered, oldSize := p.checkpoint, p.checkpoint.size
	p.mu.RUnlock()

	puts := []struct{ key, value []byte }{
		{groupKey(spaceCheckpoint, p.id), fold},
		{groupKey(spaceHorizon, p.id), base},
		{groupKey(spaceManifest, p.id), runs},
		{groupKey(spaceHardState, p.id), encodeHardState(hard)},
	}
	if moved > 0 {
		if err := c.oldMarks(p); err != nil {
			return err
		}
	}
	for _, x := range puts {
		if x.value == nil {
			continue
		}
		if int64(len(x.value)) > valueLogFileSize {
			return fmt.Errorf("checkpoint of group %d: %w: %d bytes", p.id, ErrTooLarge, len(x.value))
		}
		if err := c.set(x.key, x.value); err != nil {
			return err
		}
	}
	c.after = append(c.after, func() {
		p.mu.Lock()
		p.hard = hard
		p.checkpoint.entries -= covered.entries
		p.checkpoint.bytes -= covered.bytes
		p.checkpoint.size = int64(len(fold))
		if p.retire.moved == moved {
			p.retire.moved = 0
		}
		p.mu.Unlock()
		c.s.tail.Add(-covered.entries)
		c.s.keeper.noteDeleted(oldSize)
	})
	return nil
}

// checkpointCost is at least what addCheckpoint adds to a transaction.
const checkpointCost = 4 * (groupKeyLen + entryOverhead + valueThreshold)

// checkpointAll writes the state of every open partition that moved. Called with commitMu held.
func (s *Store) checkpointAll() error {
	c := s.newCommit()
	defer c.discard()
	for _, p := range s.open() {
		p.mu.RLock()
		moved := p.checkpoint.entries > 0 || p.retire.moved > 0
		p.mu.RUnlock()
		if !moved {
			continue
		}
		if err := c.reserve(checkpointCost); err != nil {
			return err
		}
		if err := c.addCheckpoint(p); err != nil {
			return err
		}
	}
	return c.flush()
}
