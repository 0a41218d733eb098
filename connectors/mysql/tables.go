package mysql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// tableSet are tables by name.
type tableSet map[ddl.TableName]bool

// json is the set in a resume point: the tables of each database.
func (t tableSet) json() ([]byte, error) {
	byDatabase := map[string][]string{}
	for name := range t {
		byDatabase[name.Database] = append(byDatabase[name.Database], name.Table)
	}
	for _, list := range byDatabase {
		slices.Sort(list)
	}
	return json.Marshal(byDatabase)
}

func parseTableSet(b []byte) (tableSet, error) {
	set := tableSet{}
	if len(b) == 0 {
		return set, nil
	}
	var byDatabase map[string][]string
	if err := json.Unmarshal(b, &byDatabase); err != nil {
		return nil, fmt.Errorf("parse the tables of a resume point: %w", err)
	}
	for database, list := range byDatabase {
		for _, table := range list {
			set[ddl.TableName{Database: database, Table: table}] = true
		}
	}
	return set, nil
}

// id is the table's name as statements have it.
func (t *table) id() ddl.TableName { return ddl.TableName{Database: t.schema, Table: t.name} }

// transactional tells whether the table's engine has transactions, and so snapshots.
func (t *table) transactional() bool {
	switch t.engine {
	case "InnoDB", "ROCKSDB", "RocksDB", "ndbcluster":
		return true
	}
	return false
}

// lower has a statement name tables as a server with lower_case_table_names = 1 has them, whatever its text says.
func lower(e *ddl.Effect) {
	name := func(n *ddl.TableName) {
		n.Database, n.Table = strings.ToLower(n.Database), strings.ToLower(n.Table)
	}
	for i := range e.Tables {
		name(&e.Tables[i])
	}
	for i := range e.Renames {
		name(&e.Renames[i].From)
		name(&e.Renames[i].To)
	}
	for i := range e.Doubt {
		name(&e.Doubt[i])
	}
	if e.Like != nil {
		name(e.Like)
	}
	e.Database = strings.ToLower(e.Database)
}
