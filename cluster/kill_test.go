package cluster

const killChildDir = "ROWTRAIL_CLUSTER_KILL_CHILD"

func runKillChild(string) {}
