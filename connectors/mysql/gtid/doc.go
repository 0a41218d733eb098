// Package gtid holds sets of global transaction identifiers, of MySQL and of MariaDB, behind one type.
//
// MySQL's set says exactly which transactions it holds: intervals of numbers for each server UUID and tag. MariaDB's is a
// position: of each domain the last server and number. A domain's position stands for all lower numbers as long as its
// numbers only rise, as gtid_strict_mode ensures; a domain whose numbers were seen to fall is loose, and its position then
// stands for that one transaction alone.
//
// Texts are read and written as the servers print them. Sets are bounded: MaxIntervals and MaxSources.
package gtid
