package consumer

// Description is what ConsumerGroupDescribe and metrics show.
type Description struct {
	Group, State, Assignor string
	Epoch, AssignmentEpoch int32
	Members                []MemberDescription
}

// MemberDescription is one member of a Description.
type MemberDescription struct {
	MemberID, InstanceID, RackID string
	ClientID, ClientHost         string
	Epoch                        int32
	Topics                       []string
	Pattern                      string
	Assigned, Target             []TopicPartition
}

// State is the group's state by Kafka's name.
func (g *Group) State() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case g.epoch > g.assigned:
		return "Assigning"
	}
	for _, m := range g.members {
		if m.state != stateStable || m.epoch != g.assigned {
			return "Reconciling"
		}
	}
	return "Stable"
}

// Describe shows the group.
func (g *Group) Describe() Description {
	d := Description{Group: g.ID, State: g.State(), Assignor: g.preferred(), Epoch: g.epoch, AssignmentEpoch: g.assigned}
	for _, m := range g.sorted() {
		shall := make(partitions, len(m.target))
		for tp := range m.target {
			shall[tp] = 0
		}
		d.Members = append(d.Members, MemberDescription{MemberID: m.id, InstanceID: m.instance, RackID: m.rack,
			ClientID: m.clientID, ClientHost: m.clientHost, Epoch: m.epoch, Topics: m.names, Pattern: m.pattern,
			Assigned: listPartitions(m.assigned), Target: listPartitions(shall)})
	}
	return d
}

// Subscribed lists the topics that members read, by name or by what their expressions matched last.
func (g *Group) Subscribed() map[string]bool {
	set := map[string]bool{}
	for _, m := range g.members {
		for _, name := range m.names {
			set[name] = true
		}
		if p := g.patterns[m.pattern]; p != nil {
			for _, name := range p.topics {
				set[name] = true
			}
		}
	}
	return set
}
