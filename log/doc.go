// Package log keeps partition logs in Badger.
package log
