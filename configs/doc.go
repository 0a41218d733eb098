// Package configs is part of Rowtrail.
package configs
