// Package record is part of Rowtrail.
package record
