package mcpfront

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Limits of progress.
const (
	// maxProgress bounds the text of one notification; of more, the newest is kept.
	maxProgress = 4 << 10
	// progressGap is the time between two notifications of one call. One may
	// come before its time, so that a few distinct messages in a row are not
	// merged; it is still never more than five in a second.
	progressGap = 250 * time.Millisecond
)

// What is said about a call that has nothing to say itself.
const (
	noteWaiting  = "Waiting for a session to take the call."
	noteApproval = "Waiting for the owner's approval."
	noteAnswered = "The owner has answered."
)

// progressBase is where an answer that is resumed counts on from: a call never
// sends as many notifications as it lasts milliseconds, and its first ones
// come two at a time.
func progressBase(elapsed time.Duration) int64 { return 2 + max(0, elapsed.Milliseconds()) }

// notes merges what the hub reports about one call until it can be written.
// Its lock is only ever held for a moment: the hub never waits for a client.
type notes struct {
	token json.RawMessage // nil when the caller wants no progress

	mu    sync.Mutex
	text  []byte // not written yet
	fresh bool   // there is something to write, perhaps without text
	armed bool   // a timer or a write is under way that will look again
	ended bool
	due   time.Time // when the next one is due, at an even pace
	count int64
	timer *time.Timer // for what is fresh
	pulse *time.Timer // for signs of life
}

// add takes new output. write is called soon, on a goroutine of its own, and
// never twice at a time.
func (n *notes) add(text string, write func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = append(n.text, text...)
	if over := len(n.text) - maxProgress; over > 0 {
		for over < len(n.text) && !utf8.RuneStart(n.text[over]) {
			over++
		}
		n.text = append(n.text[:0], n.text[over:]...)
	}
	n.fresh = true
	if !n.armed && !n.ended {
		n.arm(write)
	}
}

// arm plans the next write. mu is held.
func (n *notes) arm(write func()) {
	n.armed = true
	n.timer = time.AfterFunc(max(0, time.Until(n.due.Add(-progressGap))), write)
}

// take gives the notification to write now, nil when there is nothing to say.
func (n *notes) take() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.fresh {
		return nil
	}
	b := n.message(string(n.text))
	n.text, n.fresh = n.text[:0], false
	return b
}

// again plans another write if something came during the last one.
func (n *notes) again(write func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed = false
	if n.fresh && !n.ended {
		n.arm(write)
	}
}

// alive is a notification that says no more than that the call is open. It is
// nil when real progress is about to be written.
func (n *notes) alive(text string) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fresh {
		return nil
	}
	return n.message(text)
}

// message is a notification, counted. mu is held.
func (n *notes) message(text string) []byte {
	n.count++
	if now := time.Now(); n.due.Before(now) {
		n.due = now
	}
	n.due = n.due.Add(progressGap)
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), n.token...)
	b = append(b, `,"progress":`...)
	b = strconv.AppendInt(b, n.count, 10)
	if text != "" {
		b = append(b, `,"message":`...)
		b = append(b, quote(text)...)
	}
	return append(b, "}}"...)
}

// later plans the next sign of life.
func (n *notes) later(tick func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ended {
		n.pulse = time.AfterFunc(keepAlive, tick)
	}
}

// stop ends the timers; a write that runs already finds the answer closed.
func (n *notes) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for _, t := range []*time.Timer{n.timer, n.pulse} {
		if t != nil {
			t.Stop()
		}
	}
}

// Event takes what the hub reports; see bridge.Watcher.
func (x *exchange) Event(e bridge.Event) {
	if !x.streams || x.notes.token == nil {
		return
	}
	text := e.Text
	switch e.Kind {
	case bridge.EventApprovalPending:
		x.asking.Store(true)
		text = noteApproval
	case bridge.EventApprovalResolved:
		x.asking.Store(false)
		text = noteAnswered
	}
	x.notes.add(text, x.pump)
}

// pump writes what the notes hold.
func (x *exchange) pump() {
	x.out.mu.Lock()
	if note := x.notes.take(); note != nil && x.out.put(eventHead, note, eventTail) != nil {
		x.cancel(errStuck)
	}
	x.out.mu.Unlock()
	x.notes.again(x.pump)
}

// tick keeps a silent answer alive. The first one turns a plain answer into a
// stream.
func (x *exchange) tick() {
	text := ""
	switch {
	case !x.handed.Load():
		text = noteWaiting
	case x.asking.Load():
		text = noteApproval
	}
	if !x.out.mu.TryLock() { // what is being written keeps it alive
		x.notes.later(x.tick)
		return
	}
	part := [][]byte{comment}
	if x.notes.token != nil {
		if note := x.notes.alive(text); note != nil {
			part = [][]byte{eventHead, note, eventTail}
		}
	}
	closed := x.out.closed
	if !closed && x.out.put(part...) != nil {
		closed = true
		x.cancel(errStuck)
	}
	x.out.mu.Unlock()
	if !closed {
		x.notes.later(x.tick)
	}
}
