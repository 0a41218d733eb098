package limits

import (
	"io/fs"
	"syscall"
)

// statBlocks is the space a file takes on disk.
func statBlocks(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
