package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const linearTimeout = 2 * time.Minute // of the judgement of one partition

// input is an operation on a partition: an append, or a question for its end.
type input struct {
	append bool
	value  int64
}

// list is a partition: how many values there are. That each is where its append said is checked against the final list, so the
// state need not hold the values.
func list() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, in, out any) (bool, any) {
			length, answer := state.(int64), out.(int64)
			if answer != length {
				return false, state
			}
			if in.(input).append {
				return true, length + 1
			}
			return true, length
		},
		DescribeOperation: func(in, out any) string {
			if i := in.(input); i.append {
				return fmt.Sprintf("append %d at %d", i.value, out)
			}
			return fmt.Sprintf("end %d", out)
		},
	}
}

// judge finds what is wrong with a partition.
func (reg *register) judge(name string) []string {
	var wrong []string
	add := func(format string, args ...any) {
		if len(wrong) < 10 {
			wrong = append(wrong, name+": "+fmt.Sprintf(format, args...))
		}
	}
	at := map[int64]int64{}
	for offset, value := range reg.final {
		if before, twice := at[value]; twice {
			add("%d stands at %d and at %d", value, before, offset)
		}
		at[value] = int64(offset)
	}
	var ops []porcupine.Operation
	known := map[int64]bool{}
	for _, a := range reg.appends {
		known[a.value] = true
		offset, there := at[a.value]
		switch {
		case a.end != unanswered && !there:
			add("%d was acknowledged at offset %d at %.3f s and is lost", a.value, a.offset, a.end.Seconds())
			continue
		case a.end != unanswered && offset != a.offset:
			add("%d was acknowledged at offset %d at %.3f s and stands at %d", a.value, a.offset, a.end.Seconds(), offset)
			continue
		case !there:
			continue // it never took place
		}
		ops = append(ops, porcupine.Operation{ClientId: a.client, Input: input{append: true, value: a.value}, Call: int64(a.begin), Output: offset, Return: int64(a.end)})
	}
	for offset, value := range reg.final {
		if !known[value] {
			add("nobody wrote %d at offset %d", value, offset)
		}
	}
	next := int64(0)
	for _, rd := range reg.tail {
		if rd.offset != next {
			add("a reader got offset %d after %d", rd.offset, next-1)
		}
		if next = rd.offset + 1; rd.offset >= int64(len(reg.final)) || reg.final[rd.offset] != rd.value {
			add("a reader got %d at offset %d, which is not there in the end", rd.value, rd.offset)
		}
	}
	for _, q := range reg.asks {
		ops = append(ops, porcupine.Operation{ClientId: q.client, Input: input{}, Call: int64(q.begin), Output: q.end, Return: int64(q.got)})
	}
	if len(wrong) > 0 {
		return wrong
	}
	switch porcupine.CheckOperationsTimeout(list(), ops, linearTimeout) {
	case porcupine.Illegal:
		add("not linearizable: %s", reg.stale())
	case porcupine.Unknown:
		add("%d operations were not judged within %s", len(ops), linearTimeout)
	}
	return wrong
}

// stale explains an answer that was not true any more, or not yet.
func (reg *register) stale() string {
	type ack struct {
		offset int64
		at     time.Duration
	}
	var acks []ack
	for _, a := range reg.appends {
		if a.end != unanswered {
			acks = append(acks, ack{a.offset, a.end})
		}
	}
	slices.SortFunc(acks, func(a, b ack) int { return int(a.at - b.at) })
	for _, q := range reg.asks {
		for _, a := range acks {
			if a.at < q.begin && a.offset >= q.end {
				return fmt.Sprintf("a question at %.3f-%.3f s was answered with the end %d, but offset %d had been acknowledged at %.3f s", q.begin.Seconds(), q.got.Seconds(), q.end, a.offset, a.at.Seconds())
			}
		}
	}
	return "see the operations"
}
