package hub

import (
	"slices"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// queue holds the calls that wait for one host, in their order.
type queue struct {
	calls []*call
	bytes int64
}

// wait puts a call at the end of the queue for its host; the empty name is for
// whoever comes first. Only queues with calls in them exist.
func (h *Hub) wait(c *call) {
	q := h.queues[c.target]
	if q == nil {
		q = &queue{}
		h.queues[c.target] = q
	}
	q.calls = append(q.calls, c)
	q.bytes += c.size()
}

// dequeue takes a call out of its queue, if it is in it.
func (h *Hub) dequeue(c *call) {
	q := h.queues[c.target]
	if q == nil {
		return
	}
	i := slices.Index(q.calls, c)
	if i < 0 {
		return
	}
	q.calls = slices.Delete(q.calls, i, i+1)
	q.bytes -= c.size()
	if len(q.calls) == 0 {
		delete(h.queues, c.target)
	}
}

// enqueue takes a new call in: it gets a slot, or waits, or ends at once.
func (h *Hub) enqueue(c *call) {
	ho, q := h.hosts[c.target], h.queues[c.target]
	up := ho != nil && h.up(ho)
	wait := h.set.QueueWait
	if c.Peer.Wait > 0 {
		wait = min(wait, c.Peer.Wait)
	}
	c.deadline = c.received.Add(wait)
	if up && q == nil && ho.slots < h.set.Concurrency {
		h.grant(ho, c)
		return
	}
	if !up && h.set.QueueMode == RejectMode {
		h.end(c, ending{state: bridge.Expired, kind: bridge.NoHost, executed: bridge.ExecutedNo, retry: bridge.RetrySafe})
		return
	}
	if q == nil {
		q = &queue{}
	}
	if len(q.calls) >= h.set.QueueCalls || q.bytes+c.size() > h.set.QueueBytes {
		h.end(c, refused(bridge.QueueFull, bridge.RetrySafe))
		return
	}
	h.wait(c)
}

// dispatch gives free slots of a host to the calls that wait for it.
func (h *Hub) dispatch(ho *host) {
	q := h.queues[ho.name]
	if q == nil {
		return
	}
	for len(q.calls) > 0 && ho.slots < h.set.Concurrency && h.up(ho) {
		c := q.calls[0]
		h.dequeue(c)
		h.grant(ho, c)
	}
}

// grant gives a queued call a slot. Its follower does the rest. Calls of one
// caller keep their order: each waits for the one before to have left.
func (h *Hub) grant(ho *host, c *call) {
	ho.slots++
	c.slot = ho
	key := c.caller()
	c.before = nil
	if last := ho.order[key]; last != nil {
		c.before = last
	}
	c.after = make(chan struct{})
	ho.order[key] = c.after
	h.tellYou(ho)
	c.nudge()
}

// up reports whether a host can take a call now.
func (h *Hub) up(ho *host) bool {
	return !h.refusing && ho.link != nil && ho.link.open && ho.listed && ho.state != hostlink.StateNotReady && !h.frozen(ho)
}

// frozen reports whether an attached host has been silent for too long.
func (h *Hub) frozen(ho *host) bool {
	return h.silence(ho) >= hostlink.FrozenAfter
}

func (h *Hub) silence(ho *host) time.Duration {
	return time.Since(ho.link.conn.LastHeard())
}

// expire ends a call whose wait is over, if it still waits.
func (h *Hub) expire(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state == bridge.Queued && c.slot == nil && !h.now().Before(c.deadline) {
		h.end(c, ending{state: bridge.Expired, kind: bridge.NoHost, executed: bridge.ExecutedNo, retry: bridge.RetrySafe})
	}
}
