package keyindex

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key spaces of the database.
const (
	spaceFolded = 'f'
	spaceKey    = 'k'
)

// How a record key stands in the index's.
const (
	tagInline = 0
	tagHashed = 1
)

const (
	maxInline = 64 // longer keys are entered by their hash
	offsetLen = 8
	maxKeyLen = 1 + 8 + 1 + maxInline
)

func groupPrefix(space byte, group uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{space}, group)
}

func foldedKey(group uint64) []byte { return groupPrefix(spaceFolded, group) }

func appendKey(dst []byte, group uint64, key []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, spaceKey), group)
	if len(key) <= maxInline {
		return append(append(dst, tagInline), key...)
	}
	sum := sha256.Sum256(key)
	return append(append(dst, tagHashed), sum[:]...)
}
