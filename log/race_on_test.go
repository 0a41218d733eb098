//go:build race

package log

// raceFactor is how much longer things may take under the race detector.
const raceFactor = 10
