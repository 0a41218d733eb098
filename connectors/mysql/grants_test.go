package mysql

import "testing"

func TestGrants(t *testing.T) {
	var g grants
	for _, text := range []string{
		"GRANT RELOAD, REPLICATION SLAVE ON *.* TO `u`@`%`", "GRANT FLUSH_TABLES ON *.* TO `u`@`%`", "GRANT `role`@`%` TO `u`@`%`",
		"GRANT PROXY ON ``@`` TO `u`@`%`", "GRANT EXECUTE ON PROCEDURE `a`.`p` TO `u`@`%`", "REVOKE SELECT ON `x`.* FROM `u`@`%`",
		"GRANT SELECT, LOCK TABLES ON `shop`.* TO `u`@`%`", "GRANT LOCK TABLES ON `team\\_%`.* TO `u`@`%`", "GRANT ALL PRIVILEGES ON `odd``name`.* TO `u`@`%`",
		"GRANT SELECT (`a`), INSERT ON `one`.`t.x` TO `u`@`%`", "GRANT LOCK TABLES ON `d_`.* TO `u`@`%`",
	} {
		if one, ok := parseGrant(text); ok {
			g = append(g, one)
		}
	}
	for _, c := range []struct {
		privilege, database, table string
		want                       bool
	}{
		{"RELOAD", "", "", true}, {"FLUSH_TABLES", "", "", true}, {"LOCK TABLES", "", "", false}, {"SELECT", "", "", false},
		{"LOCK TABLES", "shop", "t", true}, {"LOCK TABLES", "shop2", "t", false}, {"LOCK TABLES", "team_a", "t", true}, {"LOCK TABLES", "teamxa", "t", false},
		{"LOCK TABLES", "odd`name", "t", true}, {"INSERT", "one", "t.x", true}, {"INSERT", "one", "u", false}, {"LOCK TABLES", "dx", "t", true}, {"LOCK TABLES", "dxy", "t", false},
		{"RELOAD", "any", "t", true}, {"EXECUTE", "a", "p", false}, {"SELECT", "x", "t", false},
	} {
		if got := g.has(c.privilege, c.database, c.table); got != c.want {
			t.Errorf("%s on %s.%s: %v", c.privilege, c.database, c.table, got)
		}
	}
}
