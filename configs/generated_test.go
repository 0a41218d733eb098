package configs

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
)

var update = flag.Bool("update", false, "rewrite the generated files")

const (
	referenceFile  = "../docs/configuration.md"
	referenceBegin = "<!-- reference: generated from configs/config.go by `go generate ./configs` -->\n"
	referenceEnd   = "<!-- end of reference -->\n"
)

func TestGenerated(t *testing.T) {
	schema, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "schema.json", schema)

	doc, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(doc), referenceBegin)
	_, after, closed := strings.Cut(rest, referenceEnd)
	if !found || !closed {
		t.Fatalf("%s lost its reference markers", referenceFile)
	}
	compare(t, referenceFile, []byte(before+referenceBegin+Reference()+referenceEnd+after))
}

func compare(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: run go generate ./configs", path)
	}
}

func exampleEnv() Environment {
	return testEnv(map[string]string{
		"SHOP_DSN":      "postgres://postgres:secret@127.0.0.1:5432/shop",
		"WAREHOUSE_DSN": "postgres://postgres:secret@127.0.0.1:5433/warehouse",
		"SHOP_PASSWORD": "secret", "MYSQL_WAREHOUSE_DSN": "mysql://warehouse:secret@127.0.0.1:3307/",
		"ALICE_PASSWORD": "secret", "ROWTRAIL_ADMIN_PASSWORD": "secret", "KAFKA_PASSWORD": "secret",
	}, nil)
}

func TestExamplesLoad(t *testing.T) {
	for _, name := range []string{"minimal.yaml", "broker.yaml", "full.yaml", "shop.yaml", "mysql.yaml", "secure.yaml", "kafka.yaml", "cluster/node1.yaml", "cluster/node2.yaml", "cluster/node3.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(name, data, exampleEnv()); err != nil {
			t.Error(err)
		}
	}
}

// TestFullExampleIsTheDefaults: full.yaml has every key, and each says its default.
func TestFullExampleIsTheDefaults(t *testing.T) {
	data, err := os.ReadFile("full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	full, err := Parse("full.yaml", data, exampleEnv())
	if err != nil {
		t.Fatal(err)
	}
	standard, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Fields() {
		path := strings.ReplaceAll(f.Path, "[]", "[0]")
		if full.Line(path) == 0 {
			t.Errorf("full.yaml lacks %s", f.Path)
		}
	}
	full.Listen.SASL.Mechanisms, full.Listen.SASL.Users = nil, nil // there is no default to write
	full.Cluster.Listen, full.Cluster.Peers = "", nil
	full.Log.Kafka.SASL.Password, full.Log.Kafka.Brokers = Secret{}, nil
	full.Connectors, full.Sinks, full.file, full.lines = nil, nil, "", nil
	standard.file, standard.lines = "", nil
	if !reflect.DeepEqual(full, standard) {
		t.Errorf("full.yaml differs from the defaults:\n%+v\n%+v", full, standard)
	}
}

// TestSchemaFollowsTheDecoder: the JSON schema allows exactly the keys that the decoder knows, in every example too.
func TestSchemaFollowsTheDecoder(t *testing.T) {
	raw, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	for _, f := range Fields() {
		if lookup(schema, f.Path) == nil {
			t.Errorf("schema.json lacks %s", f.Path)
		}
	}
	for _, name := range []string{"minimal.yaml", "broker.yaml", "full.yaml", "shop.yaml", "mysql.yaml", "secure.yaml", "kafka.yaml", "cluster/node1.yaml", "cluster/node2.yaml", "cluster/node3.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d := &decoder{file: name}
		body, _ := d.parse(data)
		checkKeys(t, name, body, schema)
	}
	if node, _ := lookup(schema, "node").(map[string]any); node["additionalProperties"] != false {
		t.Error("schema.json allows unknown keys")
	}
}

func lookup(schema map[string]any, path string) any {
	var at any = schema
	for path != "" {
		object, _ := at.(map[string]any)
		properties, _ := object["properties"].(map[string]any)
		if next, ok := properties[path]; ok {
			return next
		}
		head, rest, _ := strings.Cut(path, ".")
		name, isList := strings.CutSuffix(head, "[]")
		at = properties[name]
		if isList {
			object, _ = at.(map[string]any)
			at = object["items"]
		}
		if at == nil {
			return nil
		}
		path = rest
	}
	return at
}

func checkKeys(t *testing.T, name string, node ast.Node, schema map[string]any) {
	t.Helper()
	if seq, ok := node.(*ast.SequenceNode); ok {
		items, _ := schema["items"].(map[string]any)
		for _, item := range seq.Values {
			checkKeys(t, name, item, items)
		}
		return
	}
	entries, _ := entriesOf(node)
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return // free-form properties
	}
	for _, e := range entries {
		key := e.Key.GetToken().Value
		next, ok := properties[key].(map[string]any)
		if !ok {
			t.Errorf("%s: schema.json does not know %s", name, key)
			continue
		}
		checkKeys(t, name, e.Value, next)
	}
}
