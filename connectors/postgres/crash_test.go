package postgres

import "os"

const childEnv = "ROWTRAIL_TEST_CHILD"

// childMain is what the test binary does when it is started as a child.
func childMain() int {
	if os.Getenv(childEnv) == "log" {
		return logMain()
	}
	return 2
}
