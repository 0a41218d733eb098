package broker

// securityAPIs are the APIs of authentication, client quotas and access control.
func securityAPIs() []api { return nil }
