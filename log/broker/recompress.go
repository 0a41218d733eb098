package broker

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log/record"
)

// recompress makes a batch of the topic's codec out of a producer's. At most maxUnpacking are made at once, so that producers of
// such topics do not take the cores of all others; they wait for each other.
func (b *Broker) recompress(batch []byte, s *topicconfig.Settings) ([]byte, error) {
	w := b.rewriters.Get()
	defer b.rewriters.Put(w)
	out, err := w.Recompress(nil, batch, s.Codec, s.Level)
	switch {
	case errors.Is(err, record.ErrTooLarge):
		return nil, refuse(kerr.MessageTooLarge, fmt.Sprintf("records decompress to more than %d bytes", maxUnpackedBytes))
	case err != nil:
		return nil, refuse(kerr.InvalidRecord, err.Error())
	case len(out) > int(s.Log.MaxMessageBytes):
		return nil, refuse(kerr.MessageTooLarge, fmt.Sprintf("record batch of %d bytes in the topic's codec exceeds its max.message.bytes of %d", len(out), s.Log.MaxMessageBytes))
	}
	return out, nil
}
