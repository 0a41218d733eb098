package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/record"
)

// Fields that say where something is and how the answer was made, and not what it is.
var notCompared = map[string]bool{
	"Version": true, "ThrottleMillis": true, "UnknownTags": true, "ErrorMessage": true, "ClusterID": true, "ControllerID": true, "Brokers": true,
	"NodeID": true, "Host": true, "Port": true, "Leader": true, "Replicas": true, "ISR": true, "OfflineReplicas": true, "Coordinator": true,
	"CoordinatorID": true, "CurrentLeader": true, "TotalBytes": true, "UsableBytes": true, "Dir": true, "Size": true, "StartTimestamp": true,
	"LogAppendTime": true, "ClientHost": true, "AuthorizedOperations": true, "TimeoutTimestamp": true, "LastTimestamp": true, "CurrentTxnStartOffset": false,
	"CoordinatorEpoch": true, "Documentation": true, "ErrMessage": true, "ReplicationFactor": true,
}

// tree makes a response comparable: ids are names, epochs of leaders are known or not, batches are their content.
func (s *twinSide) tree(v reflect.Value, field string) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return s.tree(v.Elem(), field)
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !notCompared[f.Name] {
				out[f.Name] = s.tree(v.Field(i), f.Name)
			}
		}
		return out
	case reflect.Array:
		return s.topicName(v.Interface().([16]byte))
	case reflect.Slice:
		if b, ok := v.Interface().([]byte); ok {
			return s.bytes(b, field)
		}
		list := []any{}
		for i := range v.Len() {
			if m, ok := v.Index(i).Interface().(kmsg.MetadataResponseTopic); ok && m.IsInternal {
				continue // kfake keeps its state elsewhere
			}
			list = append(list, s.tree(v.Index(i), field))
		}
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(identity(a)+asJSON(a), identity(b)+asJSON(b)) })
		return list
	}
	switch x := v.Interface().(type) {
	case int16:
		if field == "ProducerEpoch" || field == "Epoch" {
			return s.epoch(x)
		}
	case int32:
		if field == "ProducerEpoch" {
			return s.epoch(int16(x))
		}
		if strings.HasSuffix(field, "LeaderEpoch") && x >= 0 {
			return "known"
		}
	case int64:
		if field == "Timestamp" && x > time.Now().Add(-twinAge/2).UnixMilli() {
			return "of a marker"
		}
		if field == "ProducerID" {
			return s.producerName(x)
		}
	case string:
		if field == "MemberID" || field == "LeaderID" {
			return s.memberName(x)
		}
	}
	return v.Interface()
}

// epoch tells the epoch of a present claim from others. Kafka raises it once more than kfake when it ends a transaction
// for a new claim.
func (s *twinSide) epoch(x int16) any {
	for _, p := range s.pids {
		if p.Epoch == x {
			return "an epoch"
		}
	}
	return x >= 0
}

func (s *twinSide) bytes(b []byte, field string) any {
	if field != "RecordBatches" {
		return string(b)
	}
	list := []any{}
	reader := record.NewReader(1 << 20)
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err != nil {
			return append(list, err.Error())
		}
		b = rest
		if err := reader.Reset(batch); err != nil {
			return append(list, err.Error())
		}
		h := reader.BatchHeader()
		entry := map[string]any{"at": h.BaseOffset, "last": h.LastOffsetDelta, "attributes": h.Attributes, "producer": s.producerName(h.ProducerID),
			"sequence": h.BaseSequence, "time": h.MaxTimestamp}
		records := []string{}
		for reader.Next() {
			r := reader.Record()
			records = append(records, fmt.Sprintf("%d %q=%q", r.Offset, r.Key, r.Value))
		}
		if h.Control() {
			records = records[:min(len(records), 1)]
			if m, err := record.ParseEndTxn(batch); err == nil {
				records = []string{fmt.Sprintf("commit %v", m.Commit)}
			}
			delete(entry, "time")
		}
		entry["records"] = records
		list = append(list, entry)
	}
	return list
}

// identityFields say what an entry is about.
var identityFields = []string{"Topic", "TopicID", "Partition", "Name", "Group", "TransactionalID", "ResourceName", "ErrorCode"}

// identity orders the entries of a list.
func identity(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	var key string
	for _, f := range identityFields {
		key += asJSON(m[f]) + "/"
	}
	return key
}

// onlyError is an entry without what stands beside its error, unless it is of entries.
func onlyError(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if _, entries := v.([]any); slices.Contains(identityFields, k) && k != "TopicID" || entries && k != "Configs" && k != "RecordBatches" && k != "AbortedTransactions" {
			out[k] = v
		}
	}
	return out
}

func failed(m map[string]any) bool { code, ok := m["ErrorCode"].(int16); return ok && code != 0 }

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// commonGroups are those that the other has too, or that are not empty: the two make a group of a name at different times.
func commonGroups(list, other []any) []any {
	return slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		m := v.(map[string]any)
		empty := m["GroupState"] == "Empty" || m["GroupState"] == ""
		return empty && !slices.ContainsFunc(other, func(o any) bool { return o.(map[string]any)["Group"] == m["Group"] })
	})
}

// difference is a place in which two responses differ.
type difference struct{ path, ours, theirs string }

func (d difference) String() string { return fmt.Sprintf("%s: %s, kfake %s", d.path, d.ours, d.theirs) }

// compareTrees lists the differences of two trees.
func compareTrees(path string, a, b any) []difference {
	ma, oka := a.(map[string]any)
	mb, okb := b.(map[string]any)
	if oka && okb {
		if failed(ma) || failed(mb) {
			ma, mb = onlyError(ma), onlyError(mb)
		}
		keys := maps.Clone(ma)
		maps.Copy(keys, mb)
		var list []difference
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			list = append(list, compareTrees(path+"."+k, ma[k], mb[k])...)
		}
		return list
	}
	la, oka := a.([]any)
	lb, okb := b.([]any)
	if path == "ListGroups.Groups" {
		la, lb = commonGroups(la, lb), commonGroups(lb, la)
	}
	if oka && okb && len(la) == len(lb) {
		var list []difference
		for i := range la {
			list = append(list, compareTrees(path, la[i], lb[i])...)
		}
		return list
	}
	if asJSON(a) == asJSON(b) {
		return nil
	}
	return []difference{{path, asJSON(a), asJSON(b)}}
}

// compareResponses lists the differences of two responses that no entry of explained is about.
func compareResponses(ours, theirs *twinSide, req kmsg.Request, a, b kmsg.Response, used map[string]int) []difference {
	name := kmsg.NameForKey(req.Key())
	if l, ok := req.(*kmsg.ListOffsetsRequest); ok && l.Topics[0].Partitions[0].Timestamp == offsetMaxTimestamp {
		name += " of the largest timestamp"
	}
	var open []difference
	for _, d := range compareTrees(name, ours.tree(reflect.ValueOf(a), ""), theirs.tree(reflect.ValueOf(b), "")) {
		known := false
		for _, e := range explained {
			if e.path.MatchString(d.path) && e.ours.MatchString(d.ours) && e.theirs.MatchString(d.theirs) {
				used[e.name]++
				known = true
				break
			}
		}
		if !known {
			open = append(open, d)
		}
	}
	return open
}
