package journal

import "unicode/utf16"

// PartitionFor maps a coordinator's key to one of n partitions, by Java's String.hashCode as Kafka does.
func PartitionFor(key string, n int) int32 {
	h := int32(0)
	for _, u := range utf16.Encode([]rune(key)) {
		h = 31*h + int32(u)
	}
	return (h & 0x7fffffff) % int32(n)
}
