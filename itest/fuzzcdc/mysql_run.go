package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// mysqlDatabase is the database that is captured.
const mysqlDatabase = "shop"

// mysqlPair are the servers of a run from MySQL or MariaDB.
type mysqlPair struct{ from, to *servers.MySQL }

// mysqlVersion is the server that a source's name stands for.
func mysqlVersion(source string) string {
	if source == "mariadb" {
		return "mariadb:11.8"
	}
	return "mysql:9.7"
}

// setUpMySQL starts the servers, and capture before there are rows: the connector streams, and loads nothing yet.
func (r *run) setUpMySQL(ctx context.Context) error {
	// What the binlog tells of columns: all, or so little that their names are known from statements alone.
	metadata := []string{"FULL", "MINIMAL"}[r.Seed%2]
	for _, server := range []**servers.MySQL{&r.mysql.from, &r.mysql.to} {
		var err error
		options := servers.Options{Version: mysqlVersion(r.Server), Settings: map[string]string{"binlog_row_metadata": metadata}, Logf: r.Logf}
		if *server, err = servers.StartMySQL(ctx, options); err != nil {
			return err
		}
		if err := (*server).CreateDatabase(ctx, mysqlDatabase); err != nil {
			return err
		}
	}
	from, to := r.mysql.from, r.mysql.to
	r.src, r.namespace = &mysqlSource{from, mysqlDatabase}, mysqlDatabase
	r.crashTarget = func(ctx context.Context) error { return to.Restart(ctx, servers.Immediate) }
	r.ends = func(ctx context.Context) (end, end, error) {
		source, err := openMySQL(ctx, from, mysqlDatabase)
		if err != nil {
			return nil, nil, err
		}
		target, err := openMySQL(ctx, to, mysqlDatabase)
		if err != nil {
			source.close()
			return nil, nil, err
		}
		return source, target, nil
	}
	config := map[string]string{
		"database.hostname": from.Host(), "database.port": strconv.Itoa(from.Port()), "database.user": from.User(), "database.password": from.Password(),
		"topic.prefix": pipeline.Prefix, "table.include.list": mysqlDatabase + `\..*`, "snapshot.mode": "no_data", "skipped.operations": "none",
		"topic.creation.default.partitions": strconv.Itoa(partitions), "database.ssl.mode": "disabled",
	}
	topics := pipeline.Prefix + "." + mysqlDatabase + "."
	s, err := r.src.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var tables, rows []string
	for _, sql := range r.g.start() {
		if strings.HasPrefix(sql, "INSERT") {
			rows = append(rows, sql)
		} else {
			tables = append(tables, sql)
		}
	}
	if err := r.load(ctx, s, tables); err != nil {
		return err
	}
	err = r.startNode(process.Config{
		Connectors: []process.Connector{{Name: "shop", Type: r.Server, Config: config}},
		Sinks: []process.Sink{{Name: "warehouse", Type: "mysql", Topics: []string{topics + "*", "!" + topics + "keyless*"},
			Config: map[string]string{"dsn": fmt.Sprintf("mysql://%s:%s@127.0.0.1:%d/?ssl-mode=disabled", to.User(), to.Password(), to.Port())}}},
	})
	if err != nil {
		return err
	}
	if err := r.awaitStreaming(ctx); err != nil {
		return err
	}
	return r.load(ctx, s, rows)
}

// closeMySQL ends what setUpMySQL has started.
func (r *run) closeMySQL() error {
	for _, server := range []*servers.MySQL{r.mysql.from, r.mysql.to} {
		if server != nil {
			if err := server.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
