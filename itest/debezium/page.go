package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// differencesPage is written from the entries.
const differencesPage = "docs/debezium.md"

func page(root string) (string, error) {
	version, err := toolchain.DebeziumVersion(root, profile(serverMySQL))
	if err != nil {
		return "", err
	}
	forMariaDB, err := toolchain.DebeziumVersion(root, profile(serverMariaDB))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Rowtrail's events beside Debezium's

<!-- written by %[2]s from itest/debezium/entries*.go; do not edit -->

Rowtrail writes Debezium's events, so that its consumers read them unchanged. %[3]s captures the same tables of the same server with
both, Debezium %[1]s in its embedded engine, and compares all events field by field: keys, envelopes, source blocks, headers,
tombstones, transactions and Connect schemas, of every type with border values and random ones, in the initial load, of inserts, updates, deletes
and changed keys, in each handling mode, with schemas and without, and of what else their properties say: tombstones, skipped operations, heartbeats, lists
of columns, keys of other columns, transactions, statements. What follows is all that differs; the run fails on a difference that
is not here, and on one of these that no longer occurs. The servers are Postgres and MySQL 9.7. MariaDB 11.8 can be compared with Debezium %[4]s (`+"`SOURCE=mariadb`"+`), the newest
version of that connector that Maven Central gives whole; what differs there is not listed yet. Every property that the connectors of Debezium have is given to Rowtrail, too: it takes it, has no use for it, or
refuses it by its name.

Set aside are the time of processing, the connector's version and name, the numbers in ids of transactions, the order of a transaction's tables in its END, and in the initial load, of which each side has its own,
the place and the time in the source.

`, version, "`make debezium-page`", "`make debezium`", forMariaDB)
	b.WriteString("| difference | servers | whose choice |\n| --- | --- | --- |\n")
	list := entries()
	for _, e := range list {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", e.id, e.id, strings.Join(e.servers, ", "), e.by)
	}
	for _, e := range list {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", e.id, strings.TrimSpace(e.reason))
	}
	return b.String(), nil
}

func writePage(root string) error {
	text, err := page(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, differencesPage), []byte(text), 0o644)
}

func pageIsCurrent(root string) (bool, error) {
	want, err := page(root)
	if err != nil {
		return false, err
	}
	got, err := os.ReadFile(filepath.Join(root, differencesPage))
	if err != nil {
		return false, err
	}
	return string(got) == want, nil
}
