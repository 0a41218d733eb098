package binlog

import "testing"

func TestAgrees(t *testing.T) {
	for _, c := range []struct {
		typ  WireType
		meta []byte
		fits []string
		not  []string
	}{
		{WireLong, nil, []string{"int", "INT(10) UNSIGNED", "integer"}, []string{"bigint", "tinyint(1)", "varchar(4)"}},
		{WireVarchar, []byte{80, 0}, []string{"varchar(20)", "varchar(80)", "varbinary(80)", "vector(20)"}, []string{"varchar(19)", "varchar(81)", "varbinary(20)", "text", "varchar"}},
		{WireVarcharCompressed, []byte{81, 0}, []string{"varchar(20) /*M!100301 COMPRESSED*/", "varbinary(80) /*M!100301 COMPRESSED*/"}, []string{"varchar(19)"}},
		{WireString, []byte{254, 16}, []string{"uuid", "inet6", "binary(16)", "char(4)"}, []string{"inet4", "char(3)", "binary(4)", "enum('a')"}},
		{WireString, []byte{247, 1}, []string{"enum('a','it''s,('')','c')"}, []string{"set('a')", "enum(" + labels(256) + ")"}},
		{WireString, []byte{247, 2}, []string{"enum(" + labels(256) + ")"}, []string{"enum(" + labels(255) + ")"}},
		{WireString, []byte{248, 8}, []string{"set(" + labels(33) + ")", "set(" + labels(64) + ")"}, []string{"set(" + labels(32) + ")"}},
		{WireDecimal, []byte{10, 2}, []string{"decimal(10,2)", "decimal(10,2) unsigned"}, []string{"decimal(10,3)", "decimal(11,2)", "decimal(10)"}},
		{WireDecimal, []byte{10, 0}, []string{"decimal", "decimal(10,0)", "decimal(10)"}, []string{"decimal(9,0)"}},
		{WireDatetime, []byte{3}, []string{"datetime(3)"}, []string{"datetime", "datetime(6)", "timestamp(3)"}},
		{WireTime, []byte{0}, []string{"time"}, []string{"time(1)", "timestamp"}},
		{WireTimestampOld, nil, []string{"timestamp(3)", "timestamp"}, []string{"datetime"}},
		{WireBit, []byte{1, 1}, []string{"bit(9)"}, []string{"bit(8)", "bit"}},
		{WireBlob, []byte{4}, []string{"longtext", "longblob", "json"}, []string{"text", "mediumtext"}},
		{WireJSON, []byte{4}, []string{"json"}, []string{"longtext"}},
		{WireGeometry, []byte{4}, []string{"point", "geometry"}, []string{"blob"}},
		{WireYear, nil, []string{"year", "year(4)"}, []string{"tinyint", "newtype"}},
	} {
		table, err := parseTable(tableMap([]WireType{c.typ}, c.meta), true)
		if err != nil || table.Err != nil {
			t.Fatal(err, table)
		}
		for _, typ := range c.fits {
			if err := table.Agrees([]Described{{typ}}); err != nil {
				t.Error(err)
			}
		}
		for _, typ := range c.not {
			if table.Agrees([]Described{{typ}}) == nil {
				t.Errorf("type %d %v agrees with %s", c.typ, c.meta, typ)
			}
		}
	}
}
