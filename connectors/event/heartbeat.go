package event

import "strconv"

const (
	heartbeatKeySchema = `{"type":"struct","fields":[{"type":"string","optional":false,"field":"serverName"}],` +
		`"optional":false,"name":"io.debezium.connector.common.ServerNameKey","version":1}`
	heartbeatValueSchema = `{"type":"struct","fields":[{"type":"int64","optional":false,"field":"ts_ms"}],` +
		`"optional":false,"name":"io.debezium.connector.common.Heartbeat","version":1}`
)

// AppendHeartbeatKey writes the key of a heartbeat record: {"serverName":"..."}.
func AppendHeartbeatKey(dst []byte, server string, schemas bool) []byte {
	if schemas {
		dst = append(dst, `{"schema":`+heartbeatKeySchema+`,"payload":`...)
	}
	dst = append(appendString(append(dst, `{"serverName":`...), server), '}')
	if schemas {
		dst = append(dst, '}')
	}
	return dst
}

// AppendHeartbeatValue writes the value of a heartbeat record: {"ts_ms":...}.
func AppendHeartbeatValue(dst []byte, tsMs int64, schemas bool) []byte {
	if schemas {
		dst = append(dst, `{"schema":`+heartbeatValueSchema+`,"payload":`...)
	}
	dst = append(strconv.AppendInt(append(dst, `{"ts_ms":`...), tsMs, 10), '}')
	if schemas {
		dst = append(dst, '}')
	}
	return dst
}
