// Package connectors is part of Rowtrail.
package connectors
