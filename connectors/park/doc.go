// Package park leaves an error of one table with that table (invariant 7): the table is parked, the others go on, and so does the position.
//
// What parks a table is a connectors.Fault that names it (Fault.Collection). The run that ends with it is followed at once by another one, from
// the resume point, in which the table's changes are not decoded but kept as they came, in the raw store (package raw), in the log transactions
// of everything else. So nothing half done is left by the fault, and a table's changes are raw from between two source transactions on.
// That a table is parked, why, and where what waits begins and ends is a part of the resume point: the first commit makes it durable, a
// crash before it finds the same fault again, and a restart after it does not try the table again by itself.
//
// What waits is in segments of whole source transactions, each a holder of the raw store with all that its changes are decoded by. To
// unpark, the stream writes them between two source transactions, in order: a segment's events, its tombstones and the resume point that is
// behind it commit together (invariant 3), so after a crash a change is either kept or written. What comes meanwhile is kept behind.
// When nothing is left, the table's changes are written at once again, from that place of the stream on.
//
// The events have what the source says of them (source block, time of the commit). Their place in the log's order is a new one: the END
// records of their source transactions have passed, with counts without them, and positions must not go back (invariant 2). So each
// segment is a transaction of our own, with an END record of its own (invariant 5).
//
// A fault while a table is unparked parks it again, with the segment at hand still kept. A table that is to be loaded anyway, because its
// load failed or another table took its name, keeps nothing of what that load will have.
package park
