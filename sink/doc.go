// Package sink applies topics to targets.
package sink
