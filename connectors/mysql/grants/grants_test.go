package grants

import "testing"

func TestRightsHoldWhereTheyAreGranted(t *testing.T) {
	for _, c := range []struct {
		line, database, table string
		want                  bool
	}{
		{"GRANT SELECT ON *.* TO `u`@`%`", "a", "", true},
		{"GRANT SELECT ON *.* TO `u`@`%`", "", "", true},
		{"GRANT SELECT, INSERT ON `a`.* TO `u`@`%`", "a", "t", true},
		{"GRANT SELECT, INSERT ON `a`.* TO `u`@`%`", "", "", false},
		{"GRANT SELECT ON `a\\_b`.* TO `u`@`%`", "a_b", "", true},
		{"GRANT SELECT ON `a\\_b`.* TO `u`@`%`", "axb", "", false},
		{"GRANT SELECT ON `a%`.* TO `u`@`%`", "abc", "", true},
		{"GRANT SELECT ON `%`.* TO `u`@`%`", "", "", false},
		{"GRANT SELECT ON `a`.`t` TO `u`@`%`", "a", "", false},
		{"GRANT SELECT ON `a`.`t` TO `u`@`%`", "a", "t", true},
		{"GRANT SELECT ON `a``.x`.`t.u` TO `u`@`%`", "a`.x", "t.u", true},
		{"GRANT INSERT ON *.* TO `u`@`%`", "a", "", false},
		{"GRANT `role`@`%` TO `u`@`%`", "a", "", false},
		{"GRANT ALL PRIVILEGES ON `a`.* TO `u`@`%`", "a", "t", true},
		{"GRANT Select ON *.* TO `u`@`%`", "a", "t", true},
	} {
		if got := ParseAll([]string{c.line}).Has(c.database, c.table, "SELECT"); got != c.want {
			t.Errorf("%s for %q.%q: %t", c.line, c.database, c.table, got)
		}
	}
	list := ParseAll([]string{"GRANT USAGE ON *.* TO `u`@`%`", "GRANT BINLOG MONITOR ON *.* TO `u`@`%`"})
	if !list.Has("", "", "REPLICATION CLIENT", "BINLOG MONITOR") || list.Has("", "", "REPLICATION CLIENT") {
		t.Error("names of one right")
	}
}
