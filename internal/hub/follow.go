package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	// orderWait is how long a call waits for the call of the same caller before
	// it to leave: enough for a slow disk or a slow caller, short enough not
	// to be a hang.
	orderWait = time.Second
	// maxEvents bounds the events that wait for a follower; progress beyond
	// that is joined.
	maxEvents = 64
	// minApproval is what an owner gets to answer even when the call has
	// waited for nearly as long as its caller can.
	minApproval = time.Second
)

// follower is a goroutine in Call or Join.
type follower struct {
	w      bridge.Watcher
	wake   chan struct{}
	events []bridge.Event // guarded by Hub.mu
}

func newFollower(w bridge.Watcher) *follower {
	return &follower{w: w, wake: make(chan struct{}, 1)}
}

func (f *follower) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// hear queues an event for the watcher.
func (f *follower) hear(e bridge.Event) {
	if n := len(f.events); n >= maxEvents && e.Kind == bridge.EventProgress && f.events[n-1].Kind == e.Kind {
		f.events[n-1].Text = hostlink.ClipProgress(f.events[n-1].Text + e.Text)
	} else {
		f.events = append(f.events, e)
	}
	f.nudge()
}

// Call runs one call and returns how it ended. The error is ErrDetached when
// ctx ended (or another watcher took over) after the call was handed over: it
// goes on, and Join finds it. A call whose ctx ends before that is abandoned.
func (h *Hub) Call(ctx context.Context, asked bridge.Call, w bridge.Watcher) (bridge.Outcome, error) {
	f := newFollower(w)
	c := &call{Call: asked, received: h.now(), over: make(chan struct{}), state: bridge.Queued, follower: f}
	c.since = c.received
	h.mu.Lock()
	if h.calls[c.ID] != nil { // an id is random: this is a bug or bad luck, and nothing may be mixed up
		e := refused(bridge.Conflict, bridge.RetrySafe)
		o := bridge.Outcome{Call: c.ID, State: e.state, Kind: e.kind, Executed: e.executed, Retry: e.retry, Text: h.text(c, e)}
		h.mu.Unlock()
		return o, nil
	}
	h.calls[c.ID] = c
	if no := h.admit(c); no != nil {
		h.end(c, *no)
	} else {
		h.enqueue(c)
	}
	h.mu.Unlock()
	return h.follow(ctx, c, f)
}

// Join follows a call again, also one that an earlier process started. It
// returns bridge.NotFound for a call that is not known (any more) or belongs
// to another token. w takes the place of an earlier watcher.
func (h *Hub) Join(ctx context.Context, id bridge.CallID, token string, w bridge.Watcher) (bridge.Outcome, error) {
	f := newFollower(w)
	h.mu.Lock()
	c := h.calls[id]
	if c == nil && h.past[id].Ref.Token == token {
		c = h.recall(id)
	}
	if c == nil || c.Peer.Token != token {
		h.mu.Unlock()
		return bridge.Outcome{}, bridge.NotFound
	}
	if c.follower != nil {
		c.follower.nudge()
	}
	c.follower = f
	if !c.approvalBy.IsZero() {
		f.hear(bridge.Event{Kind: bridge.EventApprovalPending})
	}
	h.mu.Unlock()
	return h.follow(ctx, c, f)
}

// follow stays with a call until it is over, ctx ends, or another follower
// takes its place.
func (h *Hub) follow(ctx context.Context, c *call, f *follower) (bridge.Outcome, error) {
	var wait *time.Timer
	var waited <-chan time.Time
	for {
		h.mu.Lock()
		events := f.events
		f.events = nil
		mine, final, stop := c.follower == f, c.state.Final(), h.stopping
		hand := mine && c.state == bridge.Queued && c.slot != nil && !c.handing
		c.handing = c.handing || hand
		var left time.Duration
		if mine && c.state == bridge.Queued && c.slot == nil && wait == nil {
			left = max(c.deadline.Sub(h.now()), 1)
		}
		h.mu.Unlock()

		if final {
			h.settle(c)
		}
		for _, e := range events {
			if mine {
				f.w.Event(e)
			}
		}
		switch {
		case final && mine:
			<-c.over
			return c.answer()
		case !mine:
			return bridge.Outcome{}, ErrDetached
		case hand:
			h.hand(c, f.w)
			continue
		case stop:
			return h.leave(c, f)
		}
		if left > 0 {
			wait = time.NewTimer(left)
			defer wait.Stop()
			waited = wait.C
		}
		select {
		case <-f.wake:
		case <-waited:
			wait, waited = nil, nil
			h.expire(c)
		case <-ctx.Done():
			return h.leave(c, f)
		}
	}
}

// leave ends the following of a call. One that is not handed over yet is
// abandoned.
func (h *Hub) leave(c *call, f *follower) (bridge.Outcome, error) {
	h.mu.Lock()
	if c.follower == f && c.state == bridge.Queued {
		h.end(c, ending{state: bridge.Abandoned, kind: bridge.CallerGone, executed: bridge.ExecutedNo})
	}
	final := c.state.Final()
	if c.follower == f {
		c.follower = nil
	}
	h.mu.Unlock()
	if !final {
		return bridge.Outcome{}, ErrDetached
	}
	h.settle(c)
	<-c.over
	return c.answer()
}

// answer is what the follower of a call that is over returns. Of a recalled one
// there is the result or nothing: how it ended has been written down, and may
// have been told.
func (c *call) answer() (bridge.Outcome, error) {
	if c.recalled && c.outcome.Result == nil {
		return bridge.Outcome{}, bridge.NotFound
	}
	return c.outcome, nil
}

// hand takes a granted call to its host: the watcher first, then the ledger,
// then the frame.
func (h *Hub) hand(c *call, w bridge.Watcher) {
	gone := w.HandOver()
	if c.argsHash == "" {
		sum := sha256.Sum256(c.Args)
		c.argsHash = hex.EncodeToString(sum[:])
	}
	l := h.takeOver(c, gone)
	if l == nil {
		return
	}
	if err := h.cfg.Ledger.Start(c.startLine(), !c.harmless()); err != nil && !c.harmless() {
		h.log.Error("a call is refused: its start cannot be written down", "call", c.ID, "err", err)
		h.mu.Lock()
		h.end(c, refused(bridge.LedgerFault, bridge.RetryAsk))
		c.handing = false
		h.mu.Unlock()
		return
	}
	if c.before != nil {
		c.waitTurn()
	}
	params := c.params()
	if !h.clear(c, l) {
		return
	}
	id, err := l.conn.Start(hostlink.MethodCall, params, h.hearing(c, l), h.answering(c, l))
	h.handed(c, l, id, err)
}

// takeOver is the transition out of the queue. It returns the link to use, or
// nil when the call is not to be handed over now.
func (h *Hub) takeOver(c *call, gone error) *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	ho := c.slot
	c.offered = true
	switch {
	case c.state != bridge.Queued || ho == nil: // ended or sent back meanwhile
	case gone != nil:
		h.end(c, ending{state: bridge.Abandoned, kind: bridge.CallerGone, executed: bridge.ExecutedNo})
	case !h.up(ho):
		h.requeue(c)
	default:
		tool, ok := h.tool(ho.name, c)
		if !ok {
			h.end(c, refused(bridge.ToolUnavailable, bridge.RetryAsk))
			break
		}
		c.tier = tool.Tier
		h.handOver(c)
		c.approval = h.set.ApprovalTimeout
		if c.Peer.Wait > 0 {
			c.approval = min(c.approval, max(c.Peer.Wait-c.waited.Truncate(time.Second), minApproval))
		}
		return c.link
	}
	c.handing = false
	c.nudge() // a later follower may have been waiting for this one
	return nil
}

// clear is the last look before the frame leaves.
func (h *Hub) clear(c *call, l *link) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state == bridge.HandedOver && c.link == l && c.slot != nil && c.slot.link == l {
		c.sent, c.wasSent = true, true
		return true
	}
	if c.state == bridge.HandedOver {
		h.requeue(c)
	}
	c.handing = false
	c.nudge()
	return false
}

// handed notes what became of the frame.
func (h *Hub) handed(c *call, l *link, id int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.handing = false
	c.pass()
	var refusal *hostlink.Error
	switch {
	case err == nil:
		if c.link == l {
			c.linkID = id
			if c.cancelWhy != "" {
				l.cancel(id, c.cancelWhy)
			}
		}
	case errors.As(err, &refusal):
		h.end(c, refused(bridge.TooLarge, bridge.RetryAsk))
	case !errors.Is(err, hostlink.ErrLinkLost):
		h.log.Error("a call cannot be sent", "call", c.ID, "err", err)
		h.end(c, refused(bridge.HostFault, bridge.RetryAsk))
	}
	// A lost link: nothing has left whole. The link's end decides.
	c.nudge()
}

func (c *call) harmless() bool { return c.tier == bridge.TierRead }

// waitTurn waits for the call of the same caller before this one.
func (c *call) waitTurn() {
	select {
	case <-c.before:
		return
	default:
	}
	t := time.NewTimer(orderWait)
	defer t.Stop()
	select {
	case <-c.before:
	case <-t.C:
	}
}

// settle writes the end of a call down, once, before anyone learns of it.
func (h *Hub) settle(c *call) {
	h.mu.Lock()
	if c.settling {
		h.mu.Unlock()
		return
	}
	c.settling = true
	line := c.endLine()
	h.mu.Unlock()
	var err error
	if !c.recalled {
		err = h.cfg.Ledger.End(line)
	}
	if err != nil {
		h.log.Error("the end of a call cannot be written down yet", "call", c.ID, "err", err)
	}
	h.mu.Lock()
	c.settled, c.unsaved = true, err != nil
	h.keep(c)
	c.nudge()
	h.mu.Unlock()
	close(c.over)
}
