// Package postgres is part of Rowtrail.
package postgres
