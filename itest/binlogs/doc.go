// Package binlogs gives tests what real servers write into their binary logs, with the truth beside it.
//
// A Recorder runs statements on a server and yields, for each, the event packets that a replica is sent and what the
// tables hold afterwards, in the text that the server prints. Fixtures are recordings of the scripts in cases, one file
// a script and server in testdata, for tests without a server; `go test ./itest/binlogs -update` records them anew.
package binlogs
