package shop

import "context"

// Database is a database of some kind of server that holds a shop.
type Database interface {
	// Connect opens a session.
	Connect(ctx context.Context) (Session, error)
	// Dialect is how the kind of server wants to be spoken to.
	Dialect() *Dialect
}

// Session runs statements.
type Session interface {
	// Exec runs statements one after the other.
	Exec(ctx context.Context, statements ...string) error
	// Query is the rows of a statement as text; NULL is "".
	Query(ctx context.Context, statement string) ([][]string, error)
	Close()
}

// Dialect is what the kinds of servers differ in.
type Dialect struct {
	// Namespace is what the tables' names begin with, in the log and in statements.
	Namespace string

	create string                    // the tables; statements with semicolons between
	fill   func(Size) []string       // their rows
	gift   string                    // an expression for a new value of order_items.gift
	texts  func(table string) string // a query of a table's columns, each an expression whose text tells all of its values apart
	sum    func(table, texts string) string
}

// Table is the full name of one of the shop's tables.
func (d *Dialect) Table(name string) string { return d.Namespace + "." + name }

// Tables are the full names of the shop's tables.
func (d *Dialect) Tables() []string {
	return []string{d.Table("customers"), d.Table("products"), d.Table("orders"), d.Table("order_items")}
}

// With runs f in a session of its own.
func With(ctx context.Context, db Database, f func(Session) error) error {
	s, err := db.Connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}
