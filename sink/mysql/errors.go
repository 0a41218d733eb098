package mysql

import (
	"errors"
	"slices"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/sink"
)

// Errors that go-mysql has no names for.
const (
	errDeadlock        = 1213
	errDuplicate       = 1062
	errDuplicateNamed  = 1586
	errParentRow       = 1451 // has children
	errChildRow        = 1452 // has no parent
	errUnknownCollate  = 1273
	errUnknownCharset  = 1115
	errCollateOfOther  = 1253 // the collation is another charset's
	errUnknownColumn   = 1054
	errParse           = 1064
	errTruncated       = 1265
	errTooManyUser     = 1203
	errUserLimit       = 1226
	errNoDefault       = 1364
	errIncorrectValue  = 1366
	errUnsafeStatement = 1592
	errCheck           = 3819
	errCheckMariaDB    = 4025
	errPacket          = 1153
	errBinlogFormat    = 1665
	errPartition       = 1526 // no partition for the value
)

// code is the server's error number; 0: not the server's.
func code(err error) uint16 {
	var my *mysql.MyError
	if errors.As(err, &my) {
		return my.Code
	}
	return 0
}

// classify marks errors that trying again does not mend: data, constraints, missing objects and rights. All else (connection, shutdown,
// deadlocks, waiting for locks, resources) heals by itself.
func classify(err error) error {
	var my *mysql.MyError
	if err == nil || !errors.As(err, &my) || len(my.State) < 2 {
		return err
	}
	switch my.Code {
	case errTooManyUser, errUserLimit:
		return err
	case errTruncated, errNoDefault, errIncorrectValue, errCheck, errCheckMariaDB, errPacket, errBinlogFormat, errPartition:
		return sink.Permanent(err)
	}
	switch my.State[:2] {
	case "0A", // feature not supported
		"21", // cardinality violation
		"22", // data exception
		"23", // integrity constraint violation
		"42", // syntax error, undefined object, insufficient privilege
		"44", // WITH CHECK OPTION violation
		"45": // raised by a trigger
		return sink.Permanent(err)
	}
	return err
}

// duplicate tells that a row has a value that a unique key has already.
func duplicate(err error) bool {
	return slices.Contains([]uint16{errDuplicate, errDuplicateNamed}, code(err))
}

// orderMatters tells whether an error can come from folding a window, so that source order may go through.
func orderMatters(err error) bool {
	return duplicate(err) || slices.Contains([]uint16{errParentRow, errChildRow}, code(err))
}
