package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/connectors"
	connectormy "github.com/rowtrail/rowtrail/connectors/mysql"
	connectorpg "github.com/rowtrail/rowtrail/connectors/postgres"
	"github.com/rowtrail/rowtrail/sink"
	sinkmy "github.com/rowtrail/rowtrail/sink/mysql"
	sinkpg "github.com/rowtrail/rowtrail/sink/postgres"
)

// settingsOf are what connectors of all types have; nil of one that was not read.
func settingsOf(c configs.Connector) *connectors.Settings {
	switch parsed := c.Parsed.(type) {
	case *connectorpg.Config:
		return &parsed.Settings
	case *connectormy.Config:
		return &parsed.Settings
	}
	return nil
}

// truncateFindings warns where a target keeps rows that a TRUNCATE at its source removes.
func truncateFindings(cfg *configs.Config) []finding {
	var all []finding
	for _, c := range cfg.Connectors {
		parsed := settingsOf(c)
		if parsed == nil || !parsed.SkipTruncate {
			continue
		}
		var fed []string
		for _, s := range cfg.Sinks {
			if sink.Selection(s.Topics).MayRead(parsed.Prefix) {
				fed = append(fed, s.Name)
			}
		}
		if len(fed) > 0 {
			all = append(all, finding{
				"connector " + c.Name, connectors.LevelWarning, "skipped.operations",
				fmt.Sprintf("a TRUNCATE at the source is not captured, so it is not applied by %s: the target keeps the rows", strings.Join(fed, ", ")),
				"set skipped.operations to none, or to a list without t",
			})
		}
	}
	return all
}

// ownTopicFindings tells of sinks that name a topic which a connector keeps for itself: it is not read.
func ownTopicFindings(cfg *configs.Config) []finding {
	var all []finding
	for _, s := range cfg.Sinks {
		for _, topic := range s.Topics {
			for _, c := range cfg.Connectors {
				parsed := settingsOf(c)
				if parsed == nil {
					continue
				}
				if _, binlog := c.Parsed.(*connectormy.Config); sink.OwnTopic(parsed.Prefix, topic) || binlog && topic == parsed.Prefix {
					all = append(all, finding{
						"sink " + s.Name, connectors.LevelError, "topic " + topic, "connector " + c.Name + " keeps it for itself: it holds no rows of a table, and the sink does not read it",
						fmt.Sprintf("leave it out of the sink's topics; those of tables are %s.*", parsed.Prefix),
					})
				}
			}
		}
	}
	return all
}

// loginFindings warns where clients must log in and the file names nobody who can.
func loginFindings(cfg *configs.Config) []finding {
	if s := cfg.Listen.SASL; !s.Enabled() || len(s.Users) > 0 {
		return nil
	}
	return []finding{{
		fmt.Sprintf("%s:%d", cfg.File(), cfg.Line("listen.sasl.mechanisms")), connectors.LevelWarning, "listen.sasl.users",
		"is empty, so only users that are stored in the log already can log in, and nobody where there are none: storing one takes a log-in",
		"name a first user, as {name: admin, password: \"${ROWTRAIL_ADMIN_PASSWORD}\"}",
	}}
}

// keylessFindings warns of the topics that a sink will stop at.
func keylessFindings(s configs.Sink, topics []string) []finding {
	var all []finding
	for _, topic := range topics {
		if sink.Selection(s.Topics).Wants(topic) {
			all = append(all, finding{
				"sink " + s.Name, connectors.LevelWarning, "topic " + topic,
				"the sink will stop at its first change: its table has no key, so its rows cannot be told apart in the target",
				fmt.Sprintf("leave it out with %q in the sink's topics, or give the table a primary key", "!"+topic),
			})
		}
	}
	return all
}

// connectFindings asks all sources and targets at the same time and keeps the file's order.
func connectFindings(ctx context.Context, cfg *configs.Config) []finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	sources, targets := make([][]connectors.Finding, len(cfg.Connectors)), make([][]sink.Finding, len(cfg.Sinks))
	var wg sync.WaitGroup
	for i, c := range cfg.Connectors {
		wg.Go(func() {
			switch parsed := c.Parsed.(type) {
			case *connectorpg.Config:
				sources[i] = connectorpg.Check(ctx, parsed)
			case *connectormy.Config:
				sources[i] = connectormy.Check(ctx, parsed)
			}
		})
	}
	for i, s := range cfg.Sinks {
		wg.Go(func() {
			switch parsed := s.Parsed.(type) {
			case *sinkpg.Config:
				targets[i] = sinkpg.Check(ctx, parsed)
			case *sinkmy.Config:
				targets[i] = sinkmy.Check(ctx, parsed)
			}
		})
	}
	var all []finding
	if cfg.Log.Kafka.Enabled() {
		wg.Go(func() { all = kafkaFindings(ctx, cfg) })
	}
	wg.Wait()
	var keyless []string
	for i, c := range cfg.Connectors {
		for _, f := range sources[i] {
			all = append(all, finding{"connector " + c.Name, f.Level, f.Subject, f.Problem, f.Remedy})
			if f.Keyless != "" {
				keyless = append(keyless, f.Keyless)
			}
		}
	}
	for i, s := range cfg.Sinks {
		for _, f := range targets[i] {
			all = append(all, finding{"sink " + s.Name, f.Level, f.Subject, f.Problem, f.Remedy})
		}
		all = append(all, keylessFindings(s, keyless)...)
	}
	return all
}
