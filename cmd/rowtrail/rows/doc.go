// Package rows gives a node its answers for rows: it keeps the views in step with the replicas that the catalogue places here, and asks the other
// nodes for what is not here (snapshot/spread).
//
// Goroutines: Run folds and follows the catalogue until its context ends. Close ends what runs for other nodes first.
package rows
