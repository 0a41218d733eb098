package main

import "slices"

// Names of servers.
const (
	serverPostgres = "postgres"
	serverMySQL    = "mysql"
	serverMariaDB  = "mariadb"
)

// Handling modes by their properties.
const (
	propDecimal     = "decimal.handling.mode"
	propTime        = "time.precision.mode"
	propInterval    = "interval.handling.mode"
	propBinary      = "binary.handling.mode"
	propHstore      = "hstore.handling.mode"
	propUnsigned    = "bigint.unsigned.handling.mode"
	propTransaction = "provide.transaction.metadata"
)

// What else is captured, and how, by its properties.
const (
	propSnapshot      = "snapshot.mode"
	propTombstones    = "tombstones.on.delete"
	propSkipped       = "skipped.operations"
	propHeartbeat     = "heartbeat.interval.ms"
	propInclude       = "column.include.list"
	propExclude       = "column.exclude.list"
	propKeyColumns    = "message.key.columns"
	propSchemaChanges = "include.schema.changes"
	propQuery         = "include.query"
)

// mode is one setting of the handling modes, the same for both.
type mode struct {
	name  string
	props map[string]string
}

func (m *mode) is(prop, value string) bool { return m.props[prop] == value }

// setting is a property and its values; the first is what the other modes have, "" where they do not give it.
type setting struct {
	prop   string
	values []string
}

// settings are the handling modes of a server. Both sides are told every one of them, as some defaults differ.
func settings(server string) []setting {
	times := []string{"adaptive", "adaptive_time_microseconds", "microseconds", "nanoseconds", "isostring", "connect"}
	list := []setting{
		{propDecimal, []string{"precise", "double", "string"}},
		{propTime, times},
		{propBinary, []string{"bytes", "base64", "base64-url-safe", "hex"}},
		{propTransaction, []string{"false", "true"}},
		{propTombstones, []string{"true", "false"}},
		{propSkipped, []string{"none", "u", "d", "t"}},
		{propHeartbeat, []string{"0", "20"}},
		{propInclude, []string{"", `.*[.](id|a|b|n|v|u)`}},
		{propExclude, []string{"", `.*[.]s_compound[.]x,.*[.]s_defaults[.](t|d),.*[.]s_unique[.]a`}},
		{propKeyColumns, []string{"", `.*[.]s_nokey:a;.*[.]s_compound:a`}},
	}
	if server == serverPostgres {
		return append(list, setting{propInterval, []string{"string", "numeric"}}, setting{propHstore, []string{"json", "map"}})
	}
	// MySQL's own default comes first; Debezium has no adaptive there any more.
	list[1].values = []string{"adaptive_time_microseconds", "microseconds", "nanoseconds", "isostring", "connect"}
	return append(list, setting{propUnsigned, []string{"precise", "long"}}, setting{propSchemaChanges, []string{"true", "false"}}, setting{propQuery, []string{"false", "true"}},
		setting{propSnapshot, []string{"initial", "no_data"}})
}

// modes are all settings at their first value, and then each other value alone.
func modes(server string) []mode {
	list := settings(server)
	slices.SortFunc(list, func(a, b setting) int {
		if a.prop < b.prop {
			return -1
		}
		return 1
	})
	base := mode{name: "base", props: map[string]string{}}
	for _, s := range list {
		base.props[s.prop] = s.values[0]
	}
	all := []mode{base}
	for _, s := range list {
		for _, v := range s.values[1:] {
			m := mode{name: s.prop + "=" + v, props: map[string]string{}}
			if s.values[0] == "" { // a list
				m.name = s.prop
			}
			for prop, value := range base.props {
				m.props[prop] = value
			}
			m.props[s.prop] = v
			all = append(all, m)
		}
	}
	return all
}
