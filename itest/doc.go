// Package itest is part of Rowtrail.
package itest
