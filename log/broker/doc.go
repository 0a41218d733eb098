// Package broker is part of Rowtrail.
package broker
