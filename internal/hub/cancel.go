package hub

import (
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// cancelWord is how long a cancelled call waits for its host to say whether
// the tool had been started. A host says so at once; a caller notices nothing.
const cancelWord = 250 * time.Millisecond

// Cancel cancels all open calls that match and returns how many. why is
// CancelledByPeer, CancelledHere or CallerGone. A call that is not sent yet
// ends at once; one that runs ends with its host's word about it, or soon
// without.
func (h *Hub) Cancel(match func(bridge.Call) bool, why bridge.Kind) int {
	h.mu.Lock()
	open := make(map[*call]bridge.Call, len(h.calls))
	for _, c := range h.calls {
		if !c.state.Final() {
			open[c] = c.Call
		}
	}
	h.mu.Unlock()
	n := 0
	for c, asked := range open {
		if match(asked) && h.cancel(c, why) {
			n++
		}
	}
	return n
}

func (h *Hub) cancel(c *call, why bridge.Kind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state.Final() || c.cancelWhy != "" {
		return false
	}
	c.cancelWhy = why
	switch {
	case !c.sent:
		e := cancelled(c, bridge.ExecutedNo)
		if why == bridge.CallerGone {
			e.state = bridge.Abandoned
		}
		h.end(c, e)
	case c.link == nil:
		h.endCancelled(c, bridge.ExecutedUnknown)
	default:
		c.cancelBy = h.now().Add(cancelWord)
		h.wakeAt(c.cancelBy)
		if c.linkID != 0 {
			c.link.cancel(c.linkID, why)
		}
	}
	return true
}

// endCancelled ends a cancelled call as far as is known.
func (h *Hub) endCancelled(c *call, executed bridge.Executed) {
	h.end(c, cancelled(c, executed))
}

// cancelled is how a cancelled call ends. A host may also cancel of its own:
// then its owner did.
func cancelled(c *call, executed bridge.Executed) ending {
	e := ending{state: bridge.Cancelled, kind: c.cancelWhy, executed: executed}
	if e.kind == "" {
		e.kind = bridge.CancelledHere
	}
	switch executed {
	case bridge.ExecutedNo:
		if e.kind == bridge.CancelledHere {
			e.retry = bridge.RetryAsk
		}
	default:
		e.executed = bridge.ExecutedUnknown
		e.retry = bridge.RetryCheck
	}
	return e
}
