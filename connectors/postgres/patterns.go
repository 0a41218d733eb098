package postgres

// captures tells whether a table is captured.
func (c *Config) captures(schema, table string) bool {
	switch schema {
	case "pg_catalog", "information_schema", "pg_toast":
		return false
	}
	return c.schemas.Match(schema) && c.tables.Match(schema+"."+table)
}
