package main

import (
	"strings"
	"testing"
	"time"
)

func TestWhatTheJudgeOfARegisterFinds(t *testing.T) {
	ms := time.Millisecond
	put := func(value, offset int64, begin, end time.Duration) appended {
		return appended{client: int(value), value: value, offset: offset, begin: begin, end: end}
	}
	ask := func(end int64, begin, got time.Duration) asked {
		return asked{client: 100 + int(begin), end: end, begin: begin, got: got}
	}
	for name, tt := range map[string]struct {
		reg  *register
		want string
	}{
		"right": {&register{appends: []appended{put(1, 0, 0, 10*ms), put(2, 1, 5*ms, 20*ms)}, asks: []asked{ask(1, 8*ms, 12*ms), ask(2, 30*ms, 31*ms)},
			tail: []read{{0, 1}, {1, 2}}, final: []int64{1, 2}}, ""},
		"an unanswered append that is there": {&register{appends: []appended{put(1, -1, 0, unanswered), put(2, 1, 5*ms, 20*ms)}, asks: []asked{ask(2, 30*ms, 31*ms)}, final: []int64{1, 2}}, ""},
		"an unanswered append that is not":   {&register{appends: []appended{put(1, -1, 0, unanswered), put(2, 0, 5*ms, 20*ms)}, asks: []asked{ask(1, 30*ms, 31*ms)}, final: []int64{2}}, ""},
		"lost":                               {&register{appends: []appended{put(1, 0, 0, 10*ms), put(2, 1, 5*ms, 20*ms)}, final: []int64{1}}, "is lost"},
		"moved":                              {&register{appends: []appended{put(1, 0, 0, 10*ms), put(2, 1, 5*ms, 20*ms)}, final: []int64{2, 1}}, "stands at"},
		"twice":                              {&register{appends: []appended{put(1, 0, 0, 10*ms)}, final: []int64{1, 1}}, "stands at 0 and at 1"},
		"of nobody":                          {&register{final: []int64{7}}, "nobody wrote"},
		"a stale answer":                     {&register{appends: []appended{put(1, 0, 0, 10*ms)}, asks: []asked{ask(0, 20*ms, 21*ms)}, final: []int64{1}}, "not linearizable: a question"},
		"an answer too early":                {&register{appends: []appended{put(1, 0, 20*ms, 30*ms)}, asks: []asked{ask(1, 5*ms, 6*ms)}, final: []int64{1}}, "not linearizable"},
		"overtaken":                          {&register{appends: []appended{put(1, 1, 0, 10*ms), put(2, 0, 20*ms, 30*ms)}, final: []int64{2, 1}}, "not linearizable"},
		"read what is not kept":              {&register{appends: []appended{put(1, 0, 0, 10*ms)}, tail: []read{{0, 9}}, final: []int64{1}}, "not there in the end"},
		"a reader skips":                     {&register{appends: []appended{put(1, 0, 0, 10*ms), put(2, 1, 5*ms, 20*ms)}, tail: []read{{1, 2}}, final: []int64{1, 2}}, "after -1"},
	} {
		got := strings.Join(tt.reg.judge(name), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A long history of a partition is judged quickly.
func TestALongRegisterIsJudged(t *testing.T) {
	reg := &register{}
	for i := range int64(20000) {
		at := time.Duration(i) * 20 * time.Millisecond
		reg.appends = append(reg.appends, appended{client: int(i % 4), value: i, offset: i, begin: at, end: at + 60*time.Millisecond})
		reg.asks = append(reg.asks, asked{client: 10, end: i + 1, begin: at + 59*time.Millisecond, got: at + 61*time.Millisecond})
		reg.final = append(reg.final, i)
	}
	if got := reg.judge("r"); len(got) > 0 {
		t.Error(got)
	}
}
