package binlog

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// packet is an event with its header and, if the stream has them, its checksum.
func packet(typ Type, flags uint16, pos uint32, body []byte, sum bool) []byte {
	size := headerSize + len(body)
	if sum {
		size += checksumSize
	}
	b := binary.LittleEndian.AppendUint32(nil, 1700000000)
	b = append(b, byte(typ))
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, pos)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = append(b, body...)
	if sum {
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	return b
}

// formatPacket begins a stream of a server.
func formatPacket(version string, sum bool) []byte {
	body := make([]byte, 57, 110)
	body[0] = 4
	copy(body[2:52], version)
	body[56] = headerSize
	lengths := make([]byte, 42)
	lengths[typeTableMap-1], lengths[typeWriteRows1-1], lengths[typeWriteRows2-1] = 8, 8, 10
	body = append(body, lengths...)
	if sum {
		return packet(typeFormat, 0, 126, append(body, 1), true)
	}
	return packet(typeFormat, 0, 126, append(body, 0, 0, 0, 0, 0), false)
}

// started is a decoder that has seen the format.
func started(t testing.TB, version string, sum bool) *Decoder {
	t.Helper()
	d := NewDecoder(Options{MaxUnpacked: 16 << 20})
	if _, err := d.Decode(formatPacket(version, sum)); err != nil {
		t.Fatal(err)
	}
	return d
}

// tableMap is the body of a table map of it.t with id 7.
func tableMap(types []WireType, meta []byte, optional ...byte) []byte {
	b := []byte{7, 0, 0, 0, 0, 0, 1, 0, 2, 'i', 't', 0, 1, 't', 0, byte(len(types))}
	for _, typ := range types {
		b = append(b, byte(typ))
	}
	b = append(append(b, byte(len(meta))), meta...)
	b = append(b, make([]byte, (len(types)+7)/8)...)
	return append(b, optional...)
}

// rowsBody begins the body of a rows event of version 2 for that table, with all columns.
func rowsBody(columns int, images int) []byte {
	b := []byte{7, 0, 0, 0, 0, 0, 1, 0, 2, 0, byte(columns)}
	for range images {
		for i := 0; i < columns; i += 8 {
			b = append(b, 0xff)
		}
	}
	return b
}
