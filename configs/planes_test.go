package configs

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	connectorpg "github.com/rowtrail/rowtrail/connectors/postgres"
	sinkmy "github.com/rowtrail/rowtrail/sink/mysql"
	sinkpg "github.com/rowtrail/rowtrail/sink/postgres"
)

// problemsOf returns what is wrong with a file, one line each.
func problemsOf(t *testing.T, yaml string) []string {
	t.Helper()
	_, err := Parse("f", []byte(yaml), exampleEnv())
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestPropertiesAreCheckedByTheirPackages(t *testing.T) {
	got := problemsOf(t, `connectors:
  - name: shop
    type: postgres
    config:
      database.dsn: ${SHOP_DSN}
      table.include.lst: public.orders
      tombstones.on.delete: perhaps
  - name: no dsn
    type: postgres
    config:
      topic.prefix: x
  - name: odd
    type: postgers
sinks:
  - name: warehouse
    type: postgres
    topics: ["shop.public.*"]
    config:
      dsn: ${WAREHOUSE_DSN}
      truncate.enabled: 7
      nope: 1
  - name: warehouse
    type: postgres
    config: {dsn: "${WAREHOUSE_DSN}"}
`)
	for _, want := range []string{
		"f:6: connectors[0].config.table.include.lst: is unknown; did you mean table.include.list?",
		`f:7: connectors[0].config.tombstones.on.delete: "perhaps" is neither true nor false`,
		`f:8: connectors[1].name: "no dsn" is not a name; use up to 100 letters, digits, dots, dashes and underscores, a letter or digit first`,
		`f:13: connectors[2].type: "postgers" is not known; did you mean postgres?`,
		`f:20: sinks[0].config.truncate.enabled: "7" is not supported`,
		"f:21: sinks[0].config.nope: unknown property; remove it; docs/configuration.md lists the properties",
		"f:22: sinks[1].topics: is missing; add it: Topics to apply",
		`f:22: sinks[1].name: "warehouse" is also the name of the one on line 15; give each its own`,
	} {
		if !containsPrefix(got, want) {
			t.Errorf("lacks %s", want)
		}
	}
	if len(got) < 8 || t.Failed() {
		t.Logf("problems:\n%s", strings.Join(got, "\n"))
	}
}

func containsPrefix(lines []string, prefix string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			return true
		}
	}
	return false
}

func TestConnectorsDoNotShareWhatIsTheirs(t *testing.T) {
	got := problemsOf(t, `connectors:
  - {name: a, type: postgres, config: {database.dsn: "${SHOP_DSN}", topic.prefix: shop}}
  - name: b
    type: postgres
    config:
      database.dsn: ${SHOP_DSN}
      topic.prefix: shop
`)
	want := []string{
		"f:5: connectors[1].config.slot.name: is the same as that of connector a, and a slot has one reader; give each connector its own slot.name",
		"f:7: connectors[1].config.topic.prefix: is the same as that of connector a, and they would share topics and position; give each connector its own topic.prefix",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s", strings.Join(got, "\n"))
	}
}

func TestProblemsKeepSecrets(t *testing.T) {
	for _, yaml := range []string{
		"connectors: [{name: a, type: postgres, config: {database.dsn: 'postgres://u:hunter2@h:bad/d'}}]",
		"connectors: [{name: a, type: postgres, config: {database.dsn: 'hunter2 is no dsn'}}]",
		"sinks: [{name: a, type: postgres, topics: [x], config: {dsn: 'postgres://u:hunter2@h:bad/d'}}]",
		"sinks: [{name: a, type: postgres, topics: [x], config: {dsn: 'host=h port=bad password=hunter2'}}]",
		"sinks: [{name: a, type: mysql, topics: [x], config: {dsn: 'mysql://u:hunter2@h:bad/'}}]",
		"sinks: [{name: a, type: mysql, topics: [x], config: {dsn: 'u:hunter2@tcp(h:3306)/d'}}]",
		"connectors: [{name: a, type: postgres, config: {database.password: [{hunter2: hunter2}]}}]",
		"connectors: [{name: a, type: postgres, config: {database.password: 'hunter2\n",
	} {
		got := problemsOf(t, yaml)
		if len(got) == 0 || strings.Contains(strings.Join(got, "\n"), "hunter2") {
			t.Errorf("%s\n%s", yaml, strings.Join(got, "\n"))
		}
	}
}

// TestDocumentedPropertiesAreAccepted: each property of the reference is one that its package takes, and saying its default
// is the same as saying nothing.
func TestDocumentedPropertiesAreAccepted(t *testing.T) {
	connector := func(props map[string]string) []any {
		props["database.dsn"] = "postgres://u@h/d"
		c, errs := connectorpg.ParseConfig("shop", props)
		if len(errs) > 0 {
			t.Fatalf("connector properties %v: %v", props, errs)
		}
		var settings []any // what is not exported cannot be compared
		for i, v := 0, reflect.ValueOf(c).Elem(); i < v.NumField(); i++ {
			if v.Type().Field(i).IsExported() {
				settings = append(settings, v.Field(i).Interface())
			}
		}
		return settings
	}
	for _, p := range ConnectorProperties() {
		if strings.HasPrefix(p.Name, "database.") {
			continue // the connection, which TestExamplesLoad has
		}
		props := map[string]string{p.Name: strings.TrimPrefix(p.Default, "the connector's name")}
		if p.Name == "topic.prefix" {
			props[p.Name] = "shop"
		}
		if p.Name == "key.converter.schemas.enable" {
			props["value.converter.schemas.enable"] = p.Default
		}
		if got, want := connector(props), connector(map[string]string{}); !reflect.DeepEqual(got, want) {
			t.Errorf("connector property %s: %q is not its default", p.Name, p.Default)
		}
	}
	target := func(props map[string]string) any {
		props["dsn"] = "postgres://u@h/d"
		c, errs := sinkpg.ParseConfig("warehouse", []string{"shop.*"}, props)
		if len(errs) > 0 {
			t.Fatalf("sink properties %v: %v", props, errs)
		}
		c.Connect = nil // holds functions
		return c
	}
	for _, p := range SinkProperties() {
		props := map[string]string{p.Name: strings.TrimPrefix(p.Default, "the source's")}
		if got, want := target(props), target(map[string]string{}); !reflect.DeepEqual(got, want) {
			t.Errorf("sink property %s: %q is not its default", p.Name, p.Default)
		}
	}
	mysqlTarget := func(props map[string]string) any {
		props["dsn"] = "mysql://u@h"
		c, errs := sinkmy.ParseConfig("warehouse", []string{"shop.*"}, props)
		if len(errs) > 0 {
			t.Fatalf("sink properties %v: %v", props, errs)
		}
		return c
	}
	for _, p := range MySQLSinkProperties() {
		props := map[string]string{p.Name: strings.TrimPrefix(p.Default, "the source's")}
		if got, want := mysqlTarget(props), mysqlTarget(map[string]string{}); !reflect.DeepEqual(got, want) {
			t.Errorf("mysql sink property %s: %q is not its default", p.Name, p.Default)
		}
	}
}
