package connectors

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// HoldsRecords tells whether a topic has ever held a record. A load into it has to begin with a truncate: what retention or compaction
// took may still be in a target.
func (w *Writer) HoldsRecords(ctx context.Context, topic string) (bool, error) {
	ends, err := w.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return false, fmt.Errorf("read ends of topic %s: %w", topic, err)
	}
	holds := false
	ends.Each(func(o kadm.ListedOffset) { holds = holds || o.Offset > 0 })
	return holds, nil
}
