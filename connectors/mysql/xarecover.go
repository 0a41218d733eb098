package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
)

// prepared are the names of the transactions that are prepared at the source now. ok is false where that may not be asked.
func (s *session) prepared(ctx context.Context) (xids []string, ok bool, err error) {
	list, err := s.query(ctx, "XA RECOVER")
	if denied(err) || code(err) == erXARecover {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("list prepared transactions: %w", err)
	}
	for _, r := range list {
		if len(r) < 4 {
			return nil, false, fmt.Errorf("list prepared transactions: %d columns", len(r))
		}
		format, err := strconv.ParseUint(string(r[0]), 10, 32)
		if err != nil {
			return nil, false, fmt.Errorf("list prepared transactions: %w", err)
		}
		global, err := strconv.Atoi(string(r[1]))
		if err != nil || global < 0 || global > len(r[3]) {
			return nil, false, fmt.Errorf("list prepared transactions: %d bytes of %q", len(r[3]), r[1])
		}
		xids = append(xids, fmt.Sprintf("X'%x',X'%x',%d", r[3][:global], r[3][global:], format))
	}
	return xids, true, nil
}

// usesXA tells whether the server has seen XA PREPARE since it started.
func (s *session) usesXA(ctx context.Context) (bool, error) {
	list, err := s.query(ctx, "SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'")
	if err != nil {
		return false, fmt.Errorf("read Com_xa_prepare: %w", err)
	}
	return len(list) > 0 && len(list[0]) > 1 && string(list[0][1]) != "0", nil
}

// shownXIDs is how many prepared transactions a finding names.
const shownXIDs = 3

// preparedFindings warns of transactions that are prepared before the capture begins.
func (c *Config) preparedFindings(ctx context.Context, s *session, list *[]connectors.Finding) error {
	add := func(problem, remedy string) {
		*list = append(*list, connectors.Finding{Level: connectors.LevelWarning, Subject: "XA RECOVER", Problem: problem, Remedy: remedy})
	}
	xids, ok, err := s.prepared(ctx)
	if err != nil {
		return err
	}
	if !ok {
		if ok, err = s.usesXA(ctx); ok {
			add("user "+c.user+" may not list prepared transactions (XA), which are in use", c.grantSQL("XA_RECOVER_ADMIN"))
		}
		return err
	}
	if len(xids) == 0 {
		return nil
	}
	remedy := make([]string, 0, shownXIDs)
	for _, xid := range xids[:min(len(xids), shownXIDs)] {
		remedy = append(remedy, "XA COMMIT "+xid+", or XA ROLLBACK "+xid)
	}
	add(fmt.Sprintf("%d transactions are prepared, %s first: a connector that begins now knows what they changed only if their XA PREPARE is in the last %d MiB of the binlog; "+
		"it stops at the XA COMMIT of one whose changes it does not know", len(xids), xids[0], seekBytes>>20), strings.Join(remedy, "; "))
	return nil
}
