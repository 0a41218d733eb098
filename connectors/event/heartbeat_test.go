package event

import "testing"

func TestHeartbeatsAreDebeziums(t *testing.T) {
	for _, c := range []struct {
		schemas    bool
		key, value string
	}{
		{false, `{"serverName":"shop"}`, `{"ts_ms":17}`},
		{
			true,
			`{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"serverName"}],"optional":false,"name":"io.debezium.connector.common.ServerNameKey","version":1},"payload":{"serverName":"shop"}}`,
			`{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"ts_ms"}],"optional":false,"name":"io.debezium.connector.common.Heartbeat","version":1},"payload":{"ts_ms":17}}`,
		},
	} {
		if key, value := string(AppendHeartbeatKey(nil, "shop", c.schemas)), string(AppendHeartbeatValue(nil, 17, c.schemas)); key != c.key || value != c.value {
			t.Errorf("%s %s", key, value)
		}
	}
}
