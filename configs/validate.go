package configs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// validate checks what single values cannot tell: names, clashes, and connectors and sinks as their packages see them.
// Keys that are broken already (known) are not reported again.
func (c *Config) validate(known Problems) Problems {
	v := &validator{cfg: c, broken: map[string]bool{}}
	for _, p := range known {
		v.broken[p.Key] = true
	}
	v.kafka()
	v.listeners()
	v.tls()
	v.sasl()
	v.cluster()
	v.directory()
	v.groups()
	v.topicDefaults()
	v.connectors()
	v.sinks()
	return v.problems
}

type validator struct {
	cfg      *Config
	broken   map[string]bool
	problems Problems
}

// add reports a problem at a key, or at the nearest key around it that the file has.
func (v *validator) add(path, what, remedy string) {
	if v.broken[path] {
		return
	}
	line, at := 0, path
	for at != "" && line == 0 {
		line = v.cfg.lines[at]
		at = parent(at)
	}
	v.problems = append(v.problems, &Problem{File: v.cfg.file, Line: line, Key: path, What: what, Remedy: remedy})
}

// parent cuts the last part of a path: a.b -> a, a[0].b -> a[0], a[0] -> a.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

func (v *validator) listeners() {
	l := v.cfg.Listen
	if l.Kafka == "" {
		v.add("listen.kafka", "is empty, but clients and connectors need it", "write host:port, as 127.0.0.1:9092")
	}
	if l.Kafka != "" && l.Kafka == l.HTTP && l.Kafka.Port() != 0 {
		v.add("listen.http", fmt.Sprintf("is the same address as listen.kafka (%s)", l.Kafka), "give each its own port")
	}
	if l.Kafka.Wildcard() && l.Advertised == "" {
		v.add("listen.kafka", fmt.Sprintf("%s stands for all addresses, which no client can connect to", l.Kafka),
			"set listen.advertised to the host:port that clients reach")
	}
	if l.Advertised.Wildcard() {
		v.add("listen.advertised", fmt.Sprintf("%s is no address to connect to", l.Advertised), "write the host:port that clients reach")
	}
	if l.Pprof && l.HTTP == "" {
		v.add("listen.pprof", "needs listen.http, which is empty", "set listen.http, or remove pprof")
	}
}

func (v *validator) directory() {
	if strings.TrimSpace(v.cfg.Node.DataDir) == "" {
		v.add("node.data_dir", "is empty", "name a directory, as ./data")
	}
}

func (v *validator) groups() {
	l := v.cfg.Log
	if l.GroupMinSessionTimeoutMs > l.GroupMaxSessionTimeoutMs {
		v.add("log.group.min.session.timeout.ms", fmt.Sprintf("is above log.group.max.session.timeout.ms (%s), so no member could join", l.GroupMaxSessionTimeoutMs.Duration()),
			"lower it, or raise the other")
	}
	if l.GroupConsumerHeartbeat >= l.GroupConsumerSession {
		v.add("log.group.consumer.heartbeat.interval.ms", fmt.Sprintf("is not below log.group.consumer.session.timeout.ms (%s), so members would be removed between heartbeats", l.GroupConsumerSession.Duration()),
			"lower it, or raise the other")
	}
}

// topicDefaults checks the defaults of topics by the table that topics themselves are checked by.
func (v *validator) topicDefaults() {
	if v.brokenBelow("log") {
		return
	}
	defaults := v.cfg.Log.TopicDefaults()
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if p := topicconfig.Lookup(name); p == nil || !p.Accepts(defaults[name]) {
			v.add("log."+name, fmt.Sprintf("%q is not accepted", defaults[name]), "write "+p.Range)
			return
		}
	}
	if l := v.cfg.Log; l.MinCompactionLagMs > l.MaxCompactionLagMs {
		v.add("log.min.compaction.lag.ms", "is above log.max.compaction.lag.ms", "lower it, or raise the other")
	}
}

// name checks a connector's or sink's name and that it is the first of that name.
func (v *validator) name(path, name string, seen map[string]string) {
	if v.broken[path] || v.broken[path+".name"] {
		return
	}
	if !validName.MatchString(name) {
		v.add(path+".name", fmt.Sprintf("%q is not a name", name), "use up to 100 letters, digits, dots, dashes and underscores, a letter or digit first")
		return
	}
	if first, dup := seen[name]; dup {
		v.add(path+".name", fmt.Sprintf("%q is also the name of %s", name, first), "give each its own")
		return
	}
	at := path
	if line := v.cfg.lines[path+".name"]; line > 0 {
		at = fmt.Sprintf("the one on line %d", line)
	}
	seen[name] = at
}
