package mysql

import (
	"fmt"

	"github.com/rowtrail/rowtrail/connectors"
)

// Unpark is connectors.Connector's. No table of this source is parked yet: an error of one stops the connector.
func (c *Connector) Unpark(u connectors.Unpark) error {
	return fmt.Errorf("table %s %w", u.Table, connectors.ErrNotParked)
}
