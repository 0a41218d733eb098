package sink_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The runtime passes the suite with the model target.
func TestConformance(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sinktest.Harness {
		m := sinktest.NewMemory()
		return sinktest.Harness{Target: m.Target, Rows: m.Rows, Applied: m.Applied}
	})
}
