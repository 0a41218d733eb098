// Package snapshot answers for the current and past state of every key.
package snapshot
