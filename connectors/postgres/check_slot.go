package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
)

// peekTimeout bounds how long a check decodes: what it has not met by then, it does not tell.
const peekTimeout = "5s"

// checkSlot finds what would stop a connector that goes on from its slot, as far as the source shows it.
func (c *Config) checkSlot(ctx context.Context, conn *pgconn.PgConn, in *inspection) ([]connectors.Finding, error) {
	s := in.slot
	if s == nil || s.physical || s.plugin != plugin || s.database != c.Database || s.lost() != "" {
		return nil, nil // nothing to go on from, or it is told already
	}
	if s.active {
		return c.checkReader(ctx, conn, s)
	}
	again := fmt.Sprintf("SELECT pg_drop_replication_slot(%s); if the connector has run before, delete topic %s.position (`rowtrail topics delete`) too, and it loads its tables again", quoteLiteral(c.Slot), c.Prefix)
	bad := func(problem string) []connectors.Finding {
		return []connectors.Finding{{Level: connectors.LevelError, Subject: "slot " + c.Slot, Problem: problem, Remedy: again}}
	}
	if in.publication == nil { // P5: the slot decodes with the catalog as it was
		return bad("it exists, but publication " + c.Publication + " does not: changes from before the publication is created cannot be read from it"), nil
	}
	if !in.replication {
		return nil, nil
	}
	if in.version >= skipsPublication {
		rows, err := query(ctx, conn, `SELECT age(p.xmin) <= age(s.catalog_xmin) FROM pg_publication p, pg_replication_slots s
 WHERE p.pubname = `+quoteLiteral(c.Publication)+` AND s.slot_name = `+quoteLiteral(c.Slot))
		if err != nil {
			return nil, fmt.Errorf("compare publication %s with slot %s: %w", c.Publication, c.Slot, err)
		}
		if len(rows) > 0 && isTrue(rows[0][0]) {
			return bad(fmt.Sprintf("publication %s was created or altered after it, and what changed while there was none is not in the stream", c.Publication)), nil
		}
	}
	err := c.peek(ctx, conn)
	switch sqlState(err) {
	case "":
		return nil, err
	case "57014", "55006", "25006": // it took too long, is in use by now, or this is a standby that allows none
		return nil, nil
	case "42704":
		return bad(fmt.Sprintf("publication %s was created after it, so that changes before cannot be read from it: %s", c.Publication, serverMessage(err))), nil
	}
	return bad("it cannot be read: " + serverMessage(err)), nil
}

// checkReader tells this connector at work from another reader.
func (c *Config) checkReader(ctx context.Context, conn *pgconn.PgConn, s *slot) ([]connectors.Finding, error) {
	rows, err := query(ctx, conn, fmt.Sprintf("SELECT coalesce(application_name, '') FROM pg_stat_activity WHERE pid = %d", s.activePID))
	if err != nil {
		return nil, fmt.Errorf("look for the reader of slot %s: %w", c.Slot, err)
	}
	if len(rows) == 0 || string(rows[0][0]) == c.conn.RuntimeParams["application_name"] {
		return nil, nil // it is gone, or it is this connector, which is told
	}
	return []connectors.Finding{{
		Level: connectors.LevelError, Subject: "slot " + c.Slot,
		Problem: fmt.Sprintf("another program reads it: %q, process %d", rows[0][0], s.activePID),
		Remedy:  fmt.Sprintf("set slot.name to a slot of the connector's own, or stop the other reader (SELECT pg_terminate_backend(%d))", s.activePID),
	}}, nil
}

// peek decodes the slot's next transaction and leaves the slot where it is.
func (c *Config) peek(ctx context.Context, conn *pgconn.PgConn) error {
	if err := execute(ctx, conn, "SET statement_timeout = "+quoteLiteral(peekTimeout)); err != nil {
		return fmt.Errorf("bound a look into slot %s: %w", c.Slot, err)
	}
	err := execute(ctx, conn, fmt.Sprintf("SELECT count(*) FROM pg_logical_slot_peek_binary_changes(%s, NULL, 1, 'proto_version', '1', 'publication_names', %s)",
		quoteLiteral(c.Slot), quoteLiteral(quoteIdent(c.Publication))))
	if err := execute(ctx, conn, "SET statement_timeout = 0"); err != nil {
		return fmt.Errorf("end a look into slot %s: %w", c.Slot, err)
	}
	return err
}

func serverMessage(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Message
	}
	return err.Error()
}
