package broker

import (
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxNamed is how much one request may name: topics, their partitions, groups, configurations, whatever it has lists
	// of. A request that names more is refused whole, with an error at each of them.
	maxNamed = 100_000
	// maxMutations is how many partitions one request may ask to be created, as in Kafka.
	maxMutations = 10_000
)

// Records and acknowledgements are not named: Produce has its own bound, checkProduceShape.

// countNamed counts what a decoded request has in lists, up to a little more than maxNamed. An element takes a byte of the frame
// at least, so almost every request is known to be below without counting.
func countNamed(req kmsg.Request, frame int) int {
	if frame <= maxNamed {
		return 0
	}
	return countLists(reflect.ValueOf(req).Elem(), maxNamed+1)
}

func countLists(v reflect.Value, most int) int {
	n := 0
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() == reflect.Uint8 {
			continue
		}
		n += f.Len()
		if f.Type().Elem().Kind() != reflect.Struct || !hasLists(f.Type().Elem()) {
			continue
		}
		for j := 0; j < f.Len() && n < most; j++ {
			n += countLists(f.Index(j), most-n)
		}
	}
	return n
}

func hasLists(t reflect.Type) bool {
	for i := range t.NumField() {
		if k := t.Field(i).Type; k.Kind() == reflect.Slice && k.Elem().Kind() != reflect.Uint8 {
			return true
		}
	}
	return false
}

// refuseNamed is the answer to a request that names too much.
func refuseNamed(req kmsg.Request) (kmsg.Response, error) {
	code, text := kerr.InvalidRequest, fmt.Sprintf("a request may name %d things, topics and partitions among them; ask in parts", maxNamed)
	switch req.(type) {
	case *kmsg.CreateTopicsRequest, *kmsg.CreatePartitionsRequest:
		code = kerr.PolicyViolation // as Kafka answers one of too many partitions
	}
	if resp := refuseWhole(req, code, text); resp != nil {
		return resp, nil
	}
	return nil, fmt.Errorf("%s names more than %d things: %w", kmsg.NameForKey(req.Key()), maxNamed, errFrame)
}

// refuseWhole answers a request with one error: in the answer's own place for one, and at everything that the request
// names and the answer has a place for. nil: there is no such place.
func refuseWhole(req kmsg.Request, code *kerr.Error, text string) kmsg.Response {
	resp := req.ResponseKind()
	e := echo{code: code.Code, text: &text}
	e.lists(reflect.ValueOf(req).Elem(), reflect.ValueOf(resp).Elem())
	e.mark(reflect.ValueOf(resp).Elem())
	if !e.placed {
		return nil
	}
	return resp
}

// echo copies what a request names into its answer, with an error. The messages of the two are alike: lists have the same names, and
// so have the fields that name things.
type echo struct {
	code   int16
	text   *string
	placed bool
}

// listsOf are the lists of requests that have another name in the answer.
func listsOf(answer string) []string {
	switch answer {
	case "Coordinators":
		return []string{"CoordinatorKeys"}
	case "TransactionStates":
		return []string{"TransactionalIDs"}
	case "Topics":
		return []string{"Topics", "TopicNames"}
	}
	return []string{answer}
}

func (e *echo) lists(from, to reflect.Value) {
	for i := range to.NumField() {
		list := to.Field(i)
		if list.Kind() != reflect.Slice || list.Type().Elem().Kind() == reflect.Uint8 {
			continue
		}
		// Java's admin client takes null for a promise of something else.
		list.Set(reflect.MakeSlice(list.Type(), 0, 0))
		if list.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for _, name := range listsOf(to.Type().Field(i).Name) {
			if named := from.FieldByName(name); named.IsValid() && named.Kind() == reflect.Slice {
				e.list(named, list)
			}
		}
	}
}

func (e *echo) list(from, to reflect.Value) {
	at := to.Len()
	to.Grow(from.Len())
	to.SetLen(at + from.Len())
	for i := range from.Len() {
		src, dst := from.Index(i), to.Index(at+i)
		if d, ok := dst.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		if src.Kind() == reflect.Struct {
			for j := range dst.NumField() {
				f := src.FieldByName(dst.Type().Field(j).Name)
				if f.IsValid() && f.Kind() != reflect.Slice && f.Type() == dst.Field(j).Type() {
					dst.Field(j).Set(f)
				}
			}
			e.lists(src, dst)
		} else {
			for _, name := range []string{"Key", "Group", "TransactionalID", "Topic", "Partition"} {
				f := dst.FieldByName(name)
				if f.IsValid() && f.Type() == src.Type() {
					f.Set(src)
				} else if f.IsValid() && f.Kind() == reflect.Pointer && f.Type().Elem() == src.Type() {
					f.Set(src.Addr())
				}
			}
			e.lists(reflect.ValueOf(struct{}{}), dst)
		}
		e.mark(dst)
	}
}

func (e *echo) mark(v reflect.Value) {
	if f := v.FieldByName("ErrorCode"); f.IsValid() {
		f.SetInt(int64(e.code))
		e.placed = true
	}
	if f := v.FieldByName("ErrorMessage"); f.IsValid() && f.Type() == reflect.TypeOf(e.text) {
		f.Set(reflect.ValueOf(e.text))
	}
}
