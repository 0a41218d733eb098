// Package cluster runs several `rowtrail serve` processes on this machine as their users would: it founds and changes a cluster by its command line,
// makes the mistakes that people make, and restarts the nodes one after the other while clients work.
package cluster
