package hostlink

import (
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// progressRate is how many progress events one call may send in any second.
const progressRate = 5

// throttle holds progress text that came too fast. Guarded by call.mu.
type throttle struct {
	latest bool   // newer text replaces older instead of following it
	text   string // not sent yet
	sent   [progressRate]time.Time
	next   int // the oldest of sent
	timer  *time.Timer
}

// Progress implements Emitter.
func (c *call) Progress(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == "" || c.isOver() {
		return
	}
	if c.progress.latest {
		c.progress.text = ""
	}
	c.progress.text = ClipProgress(c.progress.text + text)
	c.flush(false)
}

// flush sends the progress text if its time has come, or arms the timer that
// will. At the end of the call the text goes out whatever the time is: the
// last of it is never dropped. The caller holds mu.
func (c *call) flush(end bool) {
	p := &c.progress
	if p.timer != nil && end {
		p.timer.Stop()
	}
	if p.text == "" || c.route == nil {
		return
	}
	now := time.Now()
	if wait := p.sent[p.next].Add(time.Second).Sub(now); wait > 0 && !end {
		if p.timer == nil {
			p.timer = time.AfterFunc(wait, c.flushLate)
		}
		return
	}
	_ = c.route.Event(MethodProgress, Progress{Text: p.text}) // a lost link shows in its Run
	p.text = ""
	p.sent[p.next] = now
	p.next = (p.next + 1) % progressRate
}

func (c *call) flushLate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress.timer = nil
	if !c.isOver() {
		c.flush(false)
	}
}

// isOver reports whether the answer stands. The caller holds mu.
func (c *call) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// emitter is a call with what its approval limit needs.
type emitter struct {
	*call
	host *Host
}

// Approval implements Emitter.
func (e emitter) Approval(state string) {
	c := e.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver() || state == c.gate {
		return
	}
	c.gate = state
	if state == ApprovalPending && c.approval > 0 {
		c.deadline = time.AfterFunc(c.approval, e.notApproved)
	} else if c.deadline != nil {
		c.deadline.Stop()
	}
	if c.route != nil {
		_ = c.route.Event(MethodApproval, Approval{State: state}) // a lost link shows in its Run
	}
}

// notApproved ends a call whose owner did not answer in time.
func (e emitter) notApproved() {
	c := e.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate != ApprovalPending {
		return
	}
	if c.finishLocked(e.host.calls, nil,
		&Error{Kind: KindNotApproved, Message: "nobody approved the call in time", Executed: bridge.ExecutedNo}) {
		c.cancel(errNotApproved)
	}
}

// ClipProgress returns the end of a text: what one progress event may carry, in
// whole characters.
func ClipProgress(s string) string {
	if len(s) <= MaxProgress {
		return s
	}
	s = s[len(s)-MaxProgress:]
	for len(s) > 0 && s[0]&0xC0 == 0x80 {
		s = s[1:]
	}
	return s
}
