package audit

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// maxRecords bounds the calls remembered for `a2actl calls`; older ones are
// read from the files.
const maxRecords = 512

// Record is everything the ledger has about one call.
type Record struct {
	ID    bridge.CallID
	Start *bridge.CallStart // nil: the call never reached a host
	End   *bridge.CallEnd   // nil: it is not over
	Late  *bridge.CallEnd   // nil: nothing came after its end
}

// index is what is remembered of the files: the open starts, the newest
// records, the counts of one day.
type index struct {
	open   map[bridge.CallID]openStart
	recent map[bridge.CallID]*Record
	order  []bridge.CallID // of recent, oldest first
	whole  bool            // nothing has fallen out of recent, and no rotated file has more
	day    string
	counts map[bridge.State]int
}

type openStart struct {
	start   bridge.CallStart
	durable bool
}

func newIndex(now time.Time) *index {
	return &index{
		open: map[bridge.CallID]openStart{}, recent: map[bridge.CallID]*Record{},
		whole: true, day: day(now), counts: map[bridge.State]int{},
	}
}

func (x *index) start(s bridge.CallStart, durable bool) {
	x.open[s.ID] = openStart{s, durable}
	x.record(s.ID).Start = &s
}

func (x *index) end(e bridge.CallEnd) {
	was, open := x.open[e.ID]
	r := x.record(e.ID)
	if open && r.Start == nil {
		r.Start = &was.start
	}
	if e.Late {
		r.Late = &e
		return
	}
	r.End = &e
	delete(x.open, e.ID)
	x.count(e.At, e.State)
}

// record finds or makes the record of a call.
func (x *index) record(id bridge.CallID) *Record {
	if r, ok := x.recent[id]; ok {
		return r
	}
	if len(x.order) >= maxRecords {
		delete(x.recent, x.order[0])
		x.order = x.order[1:]
		x.whole = false
	}
	r := &Record{ID: id}
	x.recent[id] = r
	x.order = append(x.order, id)
	return r
}

func (x *index) count(at time.Time, s bridge.State) {
	switch d := day(at); {
	case d == x.day:
		x.counts[s]++
	case d > x.day:
		x.day, x.counts = d, map[bridge.State]int{s: 1}
	}
}

func (x *index) today(now time.Time) map[bridge.State]int {
	out := map[bridge.State]int{}
	if x.day == day(now) {
		for s, n := range x.counts {
			out[s] = n
		}
	}
	return out
}

func (x *index) openStarts() []bridge.CallStart {
	out := make([]bridge.CallStart, 0, len(x.open))
	for _, o := range x.open {
		out = append(out, o.start)
	}
	return out
}

// merge adds what another index has read from a file that could not be read
// before.
func (x *index) merge(other *index) {
	for id, o := range other.open {
		if r, known := x.recent[id]; !known || r.End == nil {
			x.open[id] = o
		}
	}
	x.whole = false
	if x.day == other.day {
		for s, n := range other.counts {
			x.counts[s] += n
		}
	}
}

type mark struct {
	Day    string               `json:"day"`
	Counts map[bridge.State]int `json:"counts"`
}

// carry is what a new file begins with.
func (x *index) carry(now time.Time) ([]byte, error) {
	out, err := encode(keyMark, mark{Day: day(now), Counts: x.today(now)})
	if err != nil {
		return nil, err
	}
	for _, o := range x.open {
		line, err := encode(keyStart, o.start)
		if err != nil {
			return nil, err
		}
		out = append(out, line...)
	}
	return out, nil
}

// take reads one line; it reports whether the line is one of ours. It decodes
// no more than counting and pairing need: a start-up reads megabytes.
func (x *index) take(line []byte, pending map[bridge.CallID][]byte) bool {
	key, id, ok := cut(line)
	if !ok {
		return false
	}
	switch key {
	case keyStart:
		pending[id] = bytes.Clone(line)
	case keyEnd:
		at, state, late, ok := cutEnd(line)
		if !ok {
			return false
		}
		if !late {
			delete(pending, id)
			x.count(at, state)
		}
	case keyMark:
		var m struct{ Mark mark }
		if json.Unmarshal(line, &m) != nil {
			return false
		}
		if m.Mark.Day == x.day {
			for s, n := range m.Mark.Counts {
				x.counts[s] += n
			}
		}
	}
	return true
}

// cut finds the kind of a line and its call. It looks at the beginning and the
// end only: a line in the middle of a file was written whole.
func cut(line []byte) (key string, id bridge.CallID, ok bool) {
	if !bytes.HasSuffix(line, []byte("}}")) {
		return "", "", false
	}
	for _, k := range []string{keyStart, keyEnd} {
		rest, found := bytes.CutPrefix(line, []byte(`{"`+k+`":{"id":"`))
		if !found {
			continue
		}
		raw, _, found := bytes.Cut(rest, []byte{'"'})
		return k, bridge.CallID(raw), found && len(raw) > 0 && len(raw) <= maxID
	}
	return keyMark, "", bytes.HasPrefix(line, []byte(`{"`+keyMark+`":{`))
}

// maxID is more than any id of ours has.
const maxID = 64

// cutEnd takes the three values out of an end line that counting needs.
func cutEnd(line []byte) (at time.Time, state bridge.State, late, ok bool) {
	when, okAt := value(line, `"at":"`)
	what, okState := value(line, `"state":"`)
	at, err := time.Parse(time.RFC3339Nano, when)
	return at, bridge.State(what), bytes.Contains(line, []byte(`"ran_late":true`)), okAt && okState && err == nil
}

// value is the string after a key. The key's bytes cannot be inside a string:
// its quotes would be escaped there.
func value(line []byte, key string) (string, bool) {
	_, rest, ok := bytes.Cut(line, []byte(key))
	if !ok {
		return "", false
	}
	v, _, ok := bytes.Cut(rest, []byte{'"'})
	return string(v), ok
}
