//go:build !race

package postgres

// raceFactor scales limits that the race detector's own memory would break.
const raceFactor = 1
