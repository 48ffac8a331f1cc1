package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// Run keeps the clock until ctx ends: it gives up hosts, waits and kept
// results when their time has come, and has what has changed saved.
func (h *Hub) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	rest := make(chan struct{})
	go func() { // a slow disk must not stop the clock
		defer close(rest)
		for range changed {
			h.save()
		}
	}()
	defer func() {
		close(changed)
		<-rest
		h.save()
	}()
	for {
		h.mu.Lock()
		next := h.sweep()
		unsaved := h.dirty != dirty{}
		h.mu.Unlock()
		if unsaved {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		var alarm <-chan time.Time
		var t *time.Timer
		if !next.IsZero() {
			t = time.NewTimer(max(next.Sub(h.now()), 0))
			alarm = t.C
		}
		over := false
		select {
		case <-alarm:
		case <-h.kick:
		case answer := <-h.echo:
			close(answer)
		case <-ctx.Done():
			over = true
		}
		if t != nil {
			t.Stop()
		}
		if over {
			return nil
		}
	}
}

// wakeRun makes Run look again.
func (h *Hub) wakeRun() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// wakeAt makes Run look again at a time.
func (h *Hub) wakeAt(t time.Time) {
	if h.due.IsZero() || t.Before(h.due) {
		h.due = t
		h.wakeRun()
	}
}

// sweep does everything that is due and returns when to look again.
func (h *Hub) sweep() time.Time {
	h.due = time.Time{}
	if h.stopping {
		return time.Time{}
	}
	now := h.now()
	if h.pause.Paused && !h.pause.Until.IsZero() && !h.later(now, h.pause.Until) {
		h.endPause()
		h.wakeRun() // to save it
	}
	for _, ho := range h.hosts {
		h.sweepHost(now, ho)
	}
	if !h.bootBy.IsZero() && !h.later(now, h.bootBy) {
		h.bootOver()
	}
	for _, c := range h.calls {
		h.sweepCall(now, c)
	}
	return h.due
}

// later reports that t is still to come, and makes Run look again then.
func (h *Hub) later(now, t time.Time) bool {
	if !now.Before(t) {
		return false
	}
	if h.due.IsZero() || t.Before(h.due) {
		h.due = t
	}
	return true
}

func (h *Hub) sweepHost(now time.Time, ho *host) {
	if ho.link == nil {
		switch {
		case ho.pidSeen && !pidAlive(ho.hello.PID):
			h.gone(ho, reasonEnded)
		case !h.later(now, ho.leaveBy):
			h.gone(ho, ho.lostWhy)
		case ho.pidSeen:
			h.later(now, now.Add(pidPoll))
		}
		return
	}
	silence := h.silence(ho)
	if silence < hostlink.FrozenAfter {
		if ho.frozen {
			ho.frozen = false
			h.log.Info("a host responds again", "name", ho.name)
		}
		h.dispatch(ho)
		h.later(now, now.Add(hostlink.FrozenAfter-silence))
		return
	}
	if !ho.frozen {
		ho.frozen = true
		h.log.Warn("a host does not respond", "name", ho.name)
	}
	h.later(now, now.Add(frozenPoll))
}

// frozenPoll is how often a frozen host is looked at: calls may be waiting for
// it.
const frozenPoll = 250 * time.Millisecond

func (h *Hub) sweepCall(now time.Time, c *call) {
	switch {
	case !c.keepTill.IsZero():
		if !h.later(now, c.keepTill) {
			h.forget(c)
		}
	case c.state.Final():
	case !c.cancelBy.IsZero() && !h.later(now, c.cancelBy):
		h.endCancelled(c, bridge.ExecutedUnknown)
	case !c.approvalBy.IsZero() && !h.later(now, c.approvalBy):
		if c.link != nil && c.linkID != 0 {
			c.link.cancel(c.linkID, bridge.NotApproved)
		}
		h.end(c, ending{state: bridge.Expired, kind: bridge.NotApproved, executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck})
	}
}

// bootOver gives up the hosts of the previous process that have not come back,
// and their calls.
func (h *Hub) bootOver() {
	h.bootBy = time.Time{}
	clear(h.past)
	for i := range h.names.Known {
		if k := &h.names.Known[i]; k.Attached && h.hosts[k.Name] == nil {
			h.names.gone(k.Name, reasonLost, k.SeenAt)
			h.dirty.names = true
		}
	}
	for _, c := range h.calls {
		if c.adopted && c.link == nil && !c.state.Final() && h.byInstance(c.instance) == nil {
			h.end(c, hostLost())
		}
	}
	h.leftMain()
	h.wakeRun()
}

// Exercise goes through the lock and through Run, as a call would: the
// watchdog is fed only while both move.
func (h *Hub) Exercise(ctx context.Context) error {
	h.mu.Lock()
	n := len(h.calls)
	h.mu.Unlock()
	answer := make(chan struct{})
	select {
	case h.echo <- answer:
	case <-ctx.Done():
		return fmt.Errorf("the hub does not move (%d calls): %w", n, context.Cause(ctx))
	}
	select {
	case <-answer:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the hub does not move (%d calls): %w", n, context.Cause(ctx))
	}
}
