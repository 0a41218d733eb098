package configs

// Config is one node's file. Tags: key is the YAML key, default its default in the file's own notation, doc one
// sentence for the reference, min/max/enum the accepted values.
type Config struct {
	Node       Node        `key:"node" doc:"This process."`
	Listen     Listen      `key:"listen" doc:"Where the node listens. It listens on loopback unless told otherwise."`
	Cluster    Cluster     `key:"cluster" doc:"The other nodes of this one's cluster; without it the node is a cluster by itself. docs/cluster.md has the whole story."`
	Log        Log         `key:"log" doc:"Where the log is. Of the built-in one: defaults of its topics, and limits of consumer groups, by Kafka's names; a topic's own configuration wins."`
	Logging    Logging     `key:"logging" doc:"What the process writes to standard error."`
	Connectors []Connector `key:"connectors" doc:"Sources whose changes are captured."`
	Sinks      []Sink      `key:"sinks" doc:"Targets that topics are applied to."`

	file  string
	lines map[string]int
}

// Node is the process itself.
type Node struct {
	ID              int32    `key:"id" default:"1" min:"1" doc:"Number of this node, unique in its cluster. It must not change once the data directory is in use."`
	DataDir         string   `key:"data_dir" default:"./data" doc:"Directory of the log and of the views; relative to the working directory. One process at a time may use it."`
	ClusterID       string   `key:"cluster_id" default:"" doc:"Name that clients see as the cluster id; empty: made up at the first start and kept."`
	Rack            string   `key:"rack" default:"" doc:"Rack or availability zone of this node: replicas of a partition go to different ones, and clients are told of it."`
	MinFreeBytes    Size     `key:"min_free_bytes" default:"512MiB" min:"1" doc:"Below this much free space on the data directory's file system writes are refused; reads go on, and writes resume when space is back."`
	MemoryLimit     Size     `key:"memory_limit" default:"224MiB" min:"0" doc:"Soft limit of the Go heap, past which the garbage collector works harder (as GOMEMLIMIT, which wins when set); 0: none."`
	ShutdownTimeout Duration `key:"shutdown_timeout" default:"30s" min:"0" doc:"How long a graceful stop may take before what is left is cut off. A second signal, a second or more after the first, ends the process at once."`
}

// Listen is the node's addresses, and who may connect.
type Listen struct {
	Kafka      Address `key:"kafka" default:"127.0.0.1:9092" doc:"Address of the Kafka protocol listener; port 0 takes a free one."`
	Advertised Address `key:"advertised" default:"" doc:"Address that clients are told to connect to; empty: the Kafka listener's own. Needed when it listens on all addresses."`
	HTTP       Address `key:"http" default:"127.0.0.1:8080" doc:"Address of health, metrics and state over HTTP; it has no authentication. Empty: no HTTP."`
	Pprof      bool    `key:"pprof" default:"false" doc:"Serve Go's profiles under /debug/pprof on the HTTP address."`

	MaxConnections      int32 `key:"max_connections" default:"4096" min:"1" doc:"Open connections of Kafka clients; more are refused. The last eighth is for addresses that have fewer than one in 128 of all."`
	MaxConnectionsPerIP int32 `key:"max_connections_per_ip" default:"2048" min:"1" doc:"The same from one address (of IPv6: from one /64 network), so that one host cannot take them all."`
	TLS                 TLS   `key:"tls" doc:"TLS of the Kafka listener; without cert it speaks plaintext."`
	SASL                SASL  `key:"sasl" doc:"How Kafka clients log in; without mechanisms they need not. docs/security.md has the whole story."`
}

// TLS is the certificate of the Kafka listener, and what it wants of clients.
type TLS struct {
	Cert       string `key:"cert" default:"" doc:"PEM file of the certificate and those between it and its authority. Files are read again when they change."`
	Key        string `key:"key" default:"" doc:"PEM file of the certificate's private key."`
	ClientCA   string `key:"client_ca" default:"" doc:"PEM file of the authorities that sign clients' certificates."`
	ClientAuth string `key:"client_auth" default:"none" enum:"none,requested,required" doc:"Whether clients show a certificate. Its subject is the client's name where it does not log in by SASL."`
}

// SASL is who may log in, and how.
type SASL struct {
	Mechanisms     []string   `key:"mechanisms" enum:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" doc:"Mechanisms that clients may use; none: nobody logs in."`
	AllowPlaintext bool       `key:"allow_plaintext" default:"false" doc:"Allow PLAIN, which sends the password itself, without TLS on an address that is not loopback."`
	MaxReauth      Duration   `key:"max_reauth" default:"0s" min:"0" doc:"How long a log-in is good for (connections.max.reauth.ms), after which the client must log in again; 0: as long as its connection."`
	Users          []SASLUser `key:"users" doc:"Users beside those whose credentials are stored through the Kafka protocol, and before them."`
}

// SASLUser is one that the file names.
type SASLUser struct {
	Name     string `key:"name" required:"true" doc:"Name that the client logs in with."`
	Password Secret `key:"password" required:"true" doc:"Its password, as ${NAME} or file:/path."`
}

// Cluster is how nodes reach each other.
type Cluster struct {
	Listen            Address    `key:"listen" default:"" doc:"Address where the other nodes connect; empty: there are none."`
	Advertised        Address    `key:"advertised" default:"" doc:"Address that the other nodes are told to connect to; empty: this node's in peers, else listen."`
	Peers             []Peer     `key:"peers" doc:"The cluster's first nodes, the same list on each of them; on a node that joins later: nodes that are in the cluster."`
	TLS               ClusterTLS `key:"tls" doc:"Mutual TLS between the nodes; without cert they speak in the clear."`
	ReplicaLagTimeMax Duration   `key:"replica_lag_time_max" default:"30s" min:"1" doc:"A replica that has not had all of the leader's log for so long is no longer in sync (replica.lag.time.max.ms)."`
	TransferRate      Size       `key:"transfer_rate" default:"64MiB" min:"1024" doc:"Bytes per second that this node sends, at most, to replicas that begin anew or were away too long."`
}

// Peer is one node of the cluster.
type Peer struct {
	ID      int32   `key:"id" required:"true" min:"1" doc:"Its node.id."`
	Address Address `key:"address" required:"true" doc:"Where the other nodes reach it: its cluster.advertised, or cluster.listen."`
}

// ClusterTLS is the certificates between nodes, which both sides of a connection show.
type ClusterTLS struct {
	Cert string `key:"cert" default:"" doc:"PEM file of this node's certificate; it must name the host that other nodes connect to. Files are read again when they change."`
	Key  string `key:"key" default:"" doc:"PEM file of the certificate's private key."`
	CA   string `key:"ca" default:"" doc:"PEM file of the authorities that sign the nodes' certificates. Whoever has a certificate of theirs is let into the cluster: use an authority of its own."`
}

// Log is where the log is and, of the built-in one, the defaults of topics and the limits of groups.
type Log struct {
	Kafka Kafka `key:"kafka" doc:"Another Kafka cluster to use instead of the built-in log: this node then runs connectors and sinks alone, and no other key of log applies."`

	NumPartitions     int32  `key:"num.partitions" default:"1" min:"1" max:"10000" doc:"Partitions of a topic that is created without a number."`
	ReplicationFactor int32  `key:"default.replication.factor" default:"3" min:"1" max:"100" doc:"Replicas of a partition where the creation of a topic does not say; a cluster of fewer nodes gives what it has."`
	AutoCreateTopics  bool   `key:"auto.create.topics.enable" default:"true" doc:"Create a topic when a client that allows it asks for one that is missing."`
	RetentionBytes    Size   `key:"retention.bytes" default:"-1" min:"-1" doc:"Size of a partition above which its oldest records are deleted; -1: never. Deleted history is also gone from state and history queries."`
	RetentionMs       Millis `key:"retention.ms" default:"-1" min:"-1" doc:"Age above which records are deleted, in milliseconds or with a unit (7d); -1: never. Deleted history is also gone from state and history queries."`
	MaxMessageBytes   Size   `key:"max.message.bytes" default:"1048588" min:"1024" max:"33554432" doc:"Largest record batch that a producer may send."`

	CleanupPolicy      string `key:"cleanup.policy" default:"delete" doc:"delete, compact, or compact,delete: whether old records go by age and size, or all but the last record of every key do. Empty: nothing is ever removed."`
	MinCompactionLagMs Millis `key:"min.compaction.lag.ms" default:"0" min:"0" doc:"Shortest time that a record of a compacted topic stays."`
	MaxCompactionLagMs Millis `key:"max.compaction.lag.ms" default:"9223372036854775807" min:"1" doc:"Longest time that a record stays uncompacted; the default is no limit."`
	MinDirtyRatio      Ratio  `key:"min.cleanable.dirty.ratio" default:"0.5" min:"0" max:"1" doc:"Share of a compacted topic's bytes that must be uncompacted before it is compacted."`
	DeleteRetentionMs  Millis `key:"delete.retention.ms" default:"1d" min:"0" doc:"How long a tombstone is kept after compaction first saw it."`
	SegmentBytes       Size   `key:"segment.bytes" default:"1GiB" min:"14" max:"2147483647" doc:"How much must be uncompacted before a topic is compacted; more than 1MiB counts as 1MiB."`
	SegmentMs          Millis `key:"segment.ms" default:"7d" min:"1" doc:"Age at which a record makes compaction possible before segment.bytes is reached; more than 10m count as 10m."`

	MinInsyncReplicas  int32  `key:"min.insync.replicas" default:"1" min:"1" max:"2147483647" doc:"Replicas that must have a record on disk before acks=all is answered; at most as many as a topic has. A majority always must."`
	TimestampType      string `key:"message.timestamp.type" default:"CreateTime" enum:"CreateTime,LogAppendTime" doc:"Whether a record's timestamp is the producer's or the time of the append."`
	TimestampBeforeMax Millis `key:"message.timestamp.before.max.ms" default:"9223372036854775807" min:"0" doc:"How far a record's timestamp may be behind this node's clock; the default is no limit. Connectors of this process are not bound by it."`
	TimestampAfterMax  Millis `key:"message.timestamp.after.max.ms" default:"1h" min:"0" doc:"How far a record's timestamp may be ahead of this node's clock. Connectors of this process are not bound by it."`
	CompressionType    string `key:"compression.type" default:"producer" enum:"producer,uncompressed,gzip,snappy,lz4,zstd" doc:"Codec that batches are stored in; producer: as they were sent."`

	OffsetsRetentionMinutes    int32  `key:"offsets.retention.minutes" default:"10080" min:"1" max:"52560000" doc:"How long a group's committed offsets are kept once its last member has left, in minutes; while it has members, those of topics that none of them reads; without a group protocol, from the commit on."`
	OffsetMetadataMaxBytes     Size   `key:"offset.metadata.max.bytes" default:"4096" min:"1" max:"1048576" doc:"Largest text that a client may store beside one committed offset."`
	GroupMinSessionTimeoutMs   Millis `key:"group.min.session.timeout.ms" default:"6s" min:"1" max:"86400000" doc:"Shortest session that a member of a classic group may ask for."`
	GroupMaxSessionTimeoutMs   Millis `key:"group.max.session.timeout.ms" default:"30m" min:"1" max:"86400000" doc:"Longest session that a member of a classic group may ask for."`
	GroupMaxSize               int32  `key:"group.max.size" default:"10000" min:"1" max:"1000000" doc:"Members that a classic group may have."`
	GroupInitialRebalanceDelay Millis `key:"group.initial.rebalance.delay.ms" default:"0" min:"0" max:"86400000" doc:"How long the first generation of a classic group waits for more members; Kafka's default is 3s."`
	GroupConsumerSession       Millis `key:"group.consumer.session.timeout.ms" default:"45s" min:"1000" max:"86400000" doc:"How long a member of a group of the consumer protocol may be silent before it is removed."`
	GroupConsumerHeartbeat     Millis `key:"group.consumer.heartbeat.interval.ms" default:"5s" min:"1" max:"86400000" doc:"How often members of groups of the consumer protocol are told to send heartbeats, with which they also learn of changes."`
	GroupConsumerMaxSize       int32  `key:"group.consumer.max.size" default:"10000" min:"1" max:"1000000" doc:"Members that a group of the consumer protocol may have."`
}

// Kafka is a cluster that holds the log instead of this node.
type Kafka struct {
	Brokers     []string  `key:"brokers" doc:"Addresses (host:port) to find the cluster by; a few are enough. Without any, the log is the built-in one."`
	Replication int32     `key:"replication.factor" default:"-1" min:"-1" max:"32767" doc:"Replicas of topics that are created there; -1: the cluster's default. topic.creation.default.replication.factor of a connector wins for its topics."`
	TLS         KafkaTLS  `key:"tls" doc:"TLS to the cluster."`
	SASL        KafkaSASL `key:"sasl" doc:"How to log in to the cluster."`
}

// KafkaTLS is how the cluster is connected to.
type KafkaTLS struct {
	Enabled    bool   `key:"enabled" default:"false" doc:"Connect over TLS; implied by the other keys."`
	CA         string `key:"ca" default:"" doc:"PEM file of the authorities that sign the brokers' certificates; empty: the system's."`
	Cert       string `key:"cert" default:"" doc:"PEM file of a certificate to show to the brokers, and those between it and its authority."`
	Key        string `key:"key" default:"" doc:"PEM file of that certificate's private key."`
	ServerName string `key:"server_name" default:"" doc:"Name that the brokers' certificates must have; empty: the host of each broker's address."`
}

// KafkaSASL is whom to log in as.
type KafkaSASL struct {
	Mechanism string `key:"mechanism" default:"none" enum:"none,PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" doc:"How to log in; none: not at all."`
	Name      string `key:"name" default:"" doc:"Name to log in with."`
	Password  Secret `key:"password" doc:"Its password, as ${NAME} or file:/path."`
}

// Logging is the process's own log.
type Logging struct {
	Level  string `key:"level" default:"info" enum:"debug,info,warn,error" doc:"Least severe level that is written."`
	Format string `key:"format" default:"auto" enum:"auto,text,json" doc:"auto: text on a terminal, JSON lines otherwise."`
}

// Connector is one source.
type Connector struct {
	Name   string     `key:"name" required:"true" doc:"Unique name; it is part of the connector's transactional id and position, so renaming one starts it anew."`
	Type   string     `key:"type" required:"true" enum:"postgres,mysql,mariadb" doc:"Kind of source."`
	Config Properties `key:"config" doc:"The connector's properties by Debezium's names."`

	// Parsed is what the type's package made of Config: a *Config of connectors/postgres or connectors/mysql.
	Parsed any
}

// Sink is one target.
type Sink struct {
	Name   string     `key:"name" required:"true" doc:"Unique name; its consumer group is rowtrail-sink-<name>, so renaming one starts it anew."`
	Type   string     `key:"type" required:"true" enum:"postgres,mysql" doc:"Kind of target; mysql is MariaDB too."`
	Topics []string   `key:"topics" required:"true" doc:"Topics to apply: names, or patterns in which * stands for anything; \"!pattern\" leaves topics out."`
	Config Properties `key:"config" doc:"The sink's properties."`

	// Parsed is what the type's package made of Config and Topics: a *postgres.Config of sink/postgres or
	// a *mysql.Config of sink/mysql.
	Parsed any
}
