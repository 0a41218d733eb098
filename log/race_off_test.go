//go:build !race

package log

const raceFactor = 1
