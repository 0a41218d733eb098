// Package pace keeps readers of history from slowing producers down.
//
// Reading history takes CPU time from whoever else needs it, and a consumer that begins at the start of a log takes as much as it
// can get. While producers write and the machine has no CPU time left, readers of history together are held to a rate; as soon
// as producers are quiet or CPU time is left over, they are not. The rate never falls below MinRate, nor below what producers
// write, so that a reader always comes closer to the end.
//
// Files: policy (the next rate from what was measured; pure), pacer (what was read and written, and how long the next read
// waits), cpu (the machine's idle CPU time).
package pace
