package load

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// CreateTopics makes the topics; the keyed one is compacted as eagerly as it can be.
func (l *Load) CreateTopics(ctx context.Context, replicas int16) error {
	cl, err := l.client("topics", false)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	create := func(config map[string]*string, topics ...string) error {
		res, err := adm.CreateTopics(ctx, Partitions, replicas, config, topics...)
		if err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
		for _, topic := range topics {
			if err := res[topic].Err; err != nil {
				return fmt.Errorf("create topic %s: %w: %s", topic, err, res[topic].ErrMessage)
			}
		}
		return nil
	}
	if err := create(nil, Topics()[:4]...); err != nil {
		return err
	}
	eager := map[string]*string{}
	for _, setting := range strings.Fields("cleanup.policy=compact min.cleanable.dirty.ratio=0.01 segment.bytes=65536 segment.ms=500 " +
		"delete.retention.ms=1000 min.compaction.lag.ms=0 max.compaction.lag.ms=2000") {
		name, value, _ := strings.Cut(setting, "=")
		eager[name] = &value
	}
	return create(eager, StateTopic)
}

// Topics are those that CreateTopics makes.
func Topics() []string { return []string{plainTopic, eventsTopic, inputTopic, outputTopic, StateTopic} }
