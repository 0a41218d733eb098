package pipeline

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/itest/shop"
)

// Server is a source or a target.
type Server interface {
	Restart(ctx context.Context, how servers.Shutdown) error
	Port() int
	Describe() string
	Close() error
}

// End is a server and the database in it that is captured or written.
type End struct {
	Server
	DB    shop.Database
	DSN   string       // as a sink takes it
	Shell string       // a command that a person looks around with
	Audit audit.Source // of a source
}

// Kind is what source and target are both of.
type Kind interface {
	// Start brings up a server with an empty database, whose name is that of its role.
	Start(ctx context.Context, role string, opts servers.Options) (*End, error)
	// Tasks are the connector and the sink between two databases; partitions 0: the log's default.
	Tasks(source, target *End, partitions int) ([]process.Connector, []process.Sink)
}

// Roles of servers; they are databases' names, too.
const (
	source = "shop"
	target = "warehouse"
)

// KindOf is the kind of a name: postgres, mysql, mariadb, or a version as servers know it (mariadb:10.11).
func KindOf(name string) (Kind, error) {
	if name == "" || name == "postgres" {
		return postgres{}, nil
	}
	version, err := servers.MySQLVersion(name)
	if err != nil {
		return nil, fmt.Errorf("source %s: want postgres, mysql or mariadb: %w", name, err)
	}
	return mysql{version}, nil
}

type postgres struct{}

func (postgres) Start(ctx context.Context, role string, opts servers.Options) (*End, error) {
	if role == target { // a sink needs no more
		opts.Settings = map[string]string{"wal_level": "replica"}
	}
	s, err := servers.StartPostgres(ctx, opts)
	if err != nil {
		return nil, err
	}
	e := &End{Server: s}
	if e.DSN, err = s.CreateDatabase(ctx, role); err != nil {
		return e, err
	}
	e.DB, e.Audit, e.Shell = shop.Postgres(e.DSN), audit.Postgres(e.DSN), "psql '"+e.DSN+"'"
	return e, nil
}

func (postgres) Tasks(source, target *End, partitions int) ([]process.Connector, []process.Sink) {
	return Tasks(source.DSN, target.DSN, partitions)
}

// Tasks are the connector and the sink of a node that reaches two Postgres databases so.
func Tasks(source, target string, partitions int) ([]process.Connector, []process.Sink) {
	config := map[string]string{"database.dsn": source}
	return tasks("postgres", config, "postgres", "public", target, partitions)
}

func tasks(connector string, config map[string]string, sink, namespace, target string, partitions int) ([]process.Connector, []process.Sink) {
	config["topic.prefix"] = Prefix
	config["table.include.list"] = namespace + `\..*`
	if partitions > 0 {
		config["topic.creation.default.partitions"] = strconv.Itoa(partitions)
	}
	return []process.Connector{{Name: "shop", Type: connector, Config: config}},
		[]process.Sink{{Name: "warehouse", Type: sink, Topics: []string{Prefix + "." + namespace + ".*"}, Config: map[string]string{"dsn": target}}}
}

// mysql is a version of MySQL or MariaDB. The sink writes a database of the source's name.
type mysql struct{ version string }

func (k mysql) Start(ctx context.Context, _ string, opts servers.Options) (*End, error) {
	opts.Version = k.version
	s, err := servers.StartMySQL(ctx, opts)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(s.Host(), strconv.Itoa(s.Port()))
	e := &End{
		Server: s, DB: shop.MySQL{Address: address, User: s.User(), Password: s.Password(), Name: source}, Audit: &audit.MySQL{Server: s},
		DSN:   fmt.Sprintf("mysql://%s:%s@%s/?ssl-mode=disabled", s.User(), s.Password(), address),
		Shell: fmt.Sprintf("mysql -h %s -P %d -u %s -p%s %s", s.Host(), s.Port(), s.User(), s.Password(), source),
	}
	return e, s.CreateDatabase(ctx, source)
}

func (k mysql) Tasks(source, target *End, partitions int) ([]process.Connector, []process.Sink) {
	s := source.Server.(*servers.MySQL)
	config := map[string]string{
		"database.hostname": s.Host(), "database.port": strconv.Itoa(s.Port()), "database.user": s.User(), "database.password": s.Password(),
		"database.ssl.mode": "disabled",
	}
	return tasks(s.Flavour(), config, "mysql", source.DB.Dialect().Namespace, target.DSN, partitions)
}
