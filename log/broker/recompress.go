package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log/broker/turns"
)

// recompress makes a batch of the topic's codec out of a producer's, whose records it checks on the way. At most maxUnpacking are
// made at once, so that producers of such topics do not take the cores of all others; they wait for each other.
func (b *Broker) recompress(ctx context.Context, gate *turns.Party, batch []byte, s *topicconfig.Settings, c *recordCheck) ([]byte, error) {
	leave, err := enter(context.WithoutCancel(ctx), gate)
	if err != nil {
		return nil, err
	}
	defer leave()
	w := b.opening.rewriters.Get()
	defer b.opening.rewriters.Put(w)
	out, err := w.RecompressSeen(nil, batch, s.Codec, s.Level, c.see)
	if err := c.verdict(err); err != nil {
		return nil, err
	}
	if len(out) > int(s.Log.MaxMessageBytes) {
		return nil, refuse(kerr.MessageTooLarge, fmt.Sprintf("record batch of %d bytes in the topic's codec exceeds its max.message.bytes of %d", len(out), s.Log.MaxMessageBytes))
	}
	return out, nil
}
