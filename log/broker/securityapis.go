package broker

// securityAPIs are the APIs of authentication, client quotas and access control.
func securityAPIs() []api {
	return []api{
		{key: keySASLHandshake, min: 0, max: 1, handle: (*Broker).handleSASLHandshake},
		{key: 29, min: 1, max: 3, handle: (*Broker).handleDescribeACLs},
		{key: 30, min: 1, max: 3, handle: (*Broker).handleCreateACLs},
		{key: 31, min: 1, max: 3, handle: (*Broker).handleDeleteACLs},
		{key: keySASLAuthenticate, min: 0, max: 2, handle: (*Broker).handleSASLAuthenticate},
		{key: 48, min: 0, max: 1, handle: (*Broker).handleDescribeClientQuotas},
		{key: 49, min: 0, max: 1, handle: (*Broker).handleAlterClientQuotas},
		{key: 50, min: 0, max: 0, handle: (*Broker).handleDescribeScramCredentials},
		{key: 51, min: 0, max: 0, handle: (*Broker).handleAlterScramCredentials},
	}
}
