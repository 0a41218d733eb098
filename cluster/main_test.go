package cluster

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killChildDir); dir != "" {
		runKillChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
