package configs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	connectormy "github.com/rowtrail/rowtrail/connectors/mysql"
	connectorpg "github.com/rowtrail/rowtrail/connectors/postgres"
	"github.com/rowtrail/rowtrail/sink"
	sinkmy "github.com/rowtrail/rowtrail/sink/mysql"
	sinkpg "github.com/rowtrail/rowtrail/sink/postgres"
)

// connectors checks each connector's properties as its package reads them, and that no two share what must be
// theirs alone: a name (the transactional id), a topic prefix (the position topic) and a replication slot.
func (v *validator) connectors() {
	names, prefixes, slots, ids := map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	for i := range v.cfg.Connectors {
		c := &v.cfg.Connectors[i]
		path := fmt.Sprintf("connectors[%d]", i)
		v.name(path, c.Name, names)
		if v.brokenBelow(path + ".config") {
			continue // reported by the decoder
		}
		switch c.Type {
		case "postgres":
			parsed, errs := connectorpg.ParseConfig(c.Name, c.Config.Values())
			v.properties(path, c.Config, errs, ConnectorProperties())
			if len(errs) > 0 {
				continue
			}
			c.Parsed = parsed
			v.alone(path, c, "topic.prefix", parsed.Prefix, prefixes, "they would share topics and position")
			v.alone(path, c, "slot.name", server(c.Config.values)+" "+parsed.Slot, slots, "a slot has one reader")
		case connectormy.KindMySQL, connectormy.KindMariaDB:
			parsed, errs := connectormy.ParseConfig(c.Name, c.Type, c.Config.Values())
			v.properties(path, c.Config, errs, BinlogProperties())
			if len(errs) > 0 {
				continue
			}
			c.Parsed = parsed
			v.alone(path, c, "topic.prefix", parsed.Prefix, prefixes, "they would share topics and position")
			v.alone(path, c, "database.server.id", fmt.Sprintf("%s %d", server(c.Config.values), parsed.ServerID()), ids, "the source ends one of two readers with the same")
		}
	}
}

// server is what tells one source server from another in a file.
func server(values map[string]string) string {
	return values["database.dsn"] + " " + values["database.hostname"] + ":" + values["database.port"]
}

// alone reports a property whose value another connector has already.
func (v *validator) alone(path string, c *Connector, property, value string, seen map[string]string, why string) {
	first, dup := seen[value]
	if !dup {
		seen[value] = c.Name
		return
	}
	at := path + ".config." + property
	if line := c.Config.lines[property]; line > 0 {
		v.cfg.lines[at] = line
	}
	v.add(at, fmt.Sprintf("is the same as that of connector %s, and %s", first, why), "give each connector its own "+property)
}

func (v *validator) sinks() {
	names := map[string]string{}
	for i := range v.cfg.Sinks {
		s := &v.cfg.Sinks[i]
		path := fmt.Sprintf("sinks[%d]", i)
		v.name(path, s.Name, names)
		if v.brokenBelow(path+".config") || v.brokenBelow(path+".topics") {
			continue
		}
		switch s.Type {
		case sinkpg.Type:
			parsed, errs := sinkpg.ParseConfig(s.Name, s.Topics, s.Config.Values())
			if v.properties(path, s.Config, errs, SinkProperties()); len(errs) == 0 {
				s.Parsed = parsed
			}
		case sinkmy.Type:
			parsed, errs := sinkmy.ParseConfig(s.Name, s.Topics, s.Config.Values())
			if v.properties(path, s.Config, errs, MySQLSinkProperties()); len(errs) == 0 {
				s.Parsed = parsed
			}
		}
	}
}

func (v *validator) brokenBelow(path string) bool {
	for key := range v.broken {
		if key == path || strings.HasPrefix(key, path+".") || strings.HasPrefix(key, path+"[") {
			return true
		}
	}
	return false
}

// properties puts a package's errors at the lines of the properties that they name.
func (v *validator) properties(path string, props Properties, errs []error, known []Property) {
	for _, err := range errs {
		property, cause := "", err
		if e := (*connectors.PropertyError)(nil); errors.As(err, &e) {
			property, cause = e.Property, e.Err
		} else if e := (*sink.PropertyError)(nil); errors.As(err, &e) {
			property, cause = e.Property, e.Err
		}
		what, remedy, _ := strings.Cut(cause.Error(), "; ")
		remedy = remedyFor(property, what, remedy, known)
		at := path + ".config"
		switch {
		case property == "topics" || property == "name":
			at = path + "." + property
		case property != "":
			at += "." + property
			if line, given := props.lines[property]; given {
				v.cfg.lines[at] = line
			}
		}
		v.add(at, what, remedy)
	}
}
