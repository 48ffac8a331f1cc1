package hub

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	// hostKeeps is how long a host keeps an answer that nobody acked
	// (PROTOCOL.md). A call older than that which its host does not know may
	// have been answered and forgotten.
	hostKeeps = 10 * time.Minute
	// keptBytes bounds the results that are kept for callers who may resume;
	// the oldest go first.
	keptBytes = 64 << 20
)

// adoptLedger makes calls of the starts that an earlier process left open.
func (h *Hub) adoptLedger(open []bridge.CallStart) {
	for _, s := range open {
		h.calls[s.ID] = adopted(s)
	}
}

// adopted makes a call of the previous process's start.
func adopted(s bridge.CallStart) *call {
	return &call{
		Call: bridge.Call{
			ID: s.ID, Host: s.Host, Tool: s.Tool, Ref: s.Ref, Client: bridge.Client{Name: s.Client},
			Peer: bridge.Peer{Token: s.Ref.Token, Name: s.Peer},
		},
		tier: s.Tier, received: s.Received, argsHash: s.ArgsSHA256, over: make(chan struct{}),
		state: bridge.Running, since: s.At, target: s.Host, offered: true, sent: true, wasSent: true, adopted: true,
		instance: s.Instance, hostName: s.Host, handed: s.At, waited: s.At.Sub(s.Received),
	}
}

// recall takes up a call again that the previous process ended and perhaps did
// not answer: its host may keep the result. nil when there is none.
func (h *Hub) recall(id bridge.CallID) *call {
	s, ok := h.past[id]
	if !ok {
		return nil
	}
	delete(h.past, id)
	c := adopted(s)
	c.recalled = true
	h.calls[id] = c
	return c
}

// resume sorts out the calls between us and a host that says hello: those that
// it still has go on, those that never reached it go back to the queue or end.
func (h *Hub) resume(l *link, ho *host, hello hostlink.Hello) []hostlink.Resumed {
	var resumed []hostlink.Resumed
	has := map[bridge.CallID]bool{}
	for _, refs := range [][]hostlink.CallRef{hello.Running, hello.Unacked} {
		for _, ref := range refs {
			c := h.calls[ref.CallID]
			if c == nil && h.past[ref.CallID].Instance == hello.Instance {
				c = h.recall(ref.CallID)
			}
			if c == nil || has[ref.CallID] || c.instance != hello.Instance || !h.wants(c) {
				continue
			}
			id := l.conn.NextID()
			if l.conn.Adopt(id, h.hearing(c, l), h.answering(c, l)) != nil {
				return nil // the link is over already
			}
			has[ref.CallID] = true
			resumed = append(resumed, hostlink.Resumed{CallID: c.ID, ID: id})
			if c.state.Final() {
				continue
			}
			c.link, c.linkID = l, id
			if c.slot == nil {
				c.slot = ho
				ho.slots++
			}
		}
	}
	maps.DeleteFunc(h.past, func(_ bridge.CallID, s bridge.CallStart) bool { return s.Instance == hello.Instance })
	for _, c := range h.calls {
		if c.state.Final() || !c.sent || has[c.ID] {
			continue
		}
		if c.instance == hello.Instance {
			h.missing(c)
		} else if c.adopted && c.hostName == ho.name {
			h.end(c, hostLost()) // another process has the name now
		}
	}
	return resumed
}

// wants reports whether a host should go on with a call and keep its answer.
// An ended call is wanted while its result is kept here: the host's copy
// outlives a crash of ours.
func (h *Hub) wants(c *call) bool {
	if !c.state.Final() {
		return c.sent && c.cancelWhy == ""
	}
	return c.outcome.Result != nil && !c.keepTill.IsZero()
}

// missing deals with a call that its host, back on a new link, does not know.
func (h *Hub) missing(c *call) {
	switch {
	case c.cancelWhy != "":
		h.endCancelled(c, bridge.ExecutedUnknown)
	case c.recalled:
		h.end(c, hostLost())
	case !c.adopted && c.state == bridge.HandedOver:
		h.requeue(c) // it never arrived
	case c.adopted && h.now().Sub(c.handed) < hostKeeps:
		h.end(c, refused(bridge.NotArrived, bridge.RetrySafe))
	default:
		h.end(c, hostLost())
	}
}

// keep decides how long an ended call is remembered: one whose answer
// may have begun can be asked for by a caller who lost its stream.
func (h *Hub) keep(c *call) {
	if !c.offered {
		delete(h.calls, c.ID)
		return
	}
	if h.calls[c.ID] != c { // delivered already
		return
	}
	c.keepTill = h.now().Add(h.set.ResumeKeep)
	c.Args = nil
	h.kept += int64(len(c.outcome.Result))
	h.wakeAt(c.keepTill)
	for h.kept > keptBytes {
		oldest := c
		for _, other := range h.calls {
			if !other.keepTill.IsZero() && other.keepTill.Before(oldest.keepTill) {
				oldest = other
			}
		}
		h.forget(oldest)
		if oldest == c {
			return
		}
	}
}

// forget drops an ended call and lets its host do so, unless only the host's
// copy would tell the next process how it ended.
func (h *Hub) forget(c *call) {
	delete(h.calls, c.ID)
	if !c.keepTill.IsZero() {
		h.kept -= int64(len(c.outcome.Result))
		c.keepTill = time.Time{}
	}
	if ho := h.byInstance(c.instance); ho != nil && ho.link != nil && c.wasSent && !c.unsaved {
		ho.link.ack(c.ID)
	}
}

// Delivered says that the outcome of a call was written to its caller. Nobody
// can ask for it any more.
func (h *Hub) Delivered(id bridge.CallID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.calls[id]; c != nil && c.settled {
		h.forget(c)
	}
}

// ranLate records that a call which had ended otherwise was run all the same.
func (h *Hub) ranLate(c *call, failed bool, size int) {
	if c.late || c.recalled || c.outcome.Executed == bridge.ExecutedYes {
		return
	}
	c.late = true
	line := c.endLine()
	line.At, line.State, line.Kind, line.Executed = h.now(), bridge.Done, "", bridge.ExecutedYes
	if failed {
		line.State = bridge.Failed
	}
	line.Bytes, line.Late, line.Ran = size, true, line.At.Sub(c.handed)
	h.writeLate(line, c.over)
}

// maxCallID is more than any id of ours has.
const maxCallID = 64

// lateNotice takes in a host's word about a call that it ended as one that did
// not run, and that ran all the same.
func (h *Hub) lateNotice(l *link, late hostlink.Late) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.host == nil {
		return
	}
	if c := h.calls[late.CallID]; c != nil {
		if c.instance == l.host.hello.Instance && c.state.Final() {
			h.ranLate(c, late.IsError, 0)
		}
		return
	}
	line := bridge.CallEnd{ID: late.CallID, At: h.now(), Host: l.host.name, State: bridge.Done, Executed: bridge.ExecutedYes, Late: true}
	if late.IsError {
		line.State = bridge.Failed
	}
	h.writeLate(line, nil)
}

// writeLate writes a line after the call's own end.
func (h *Hub) writeLate(line bridge.CallEnd, after <-chan struct{}) {
	h.log.Warn("a tool ran after its call had ended", "call", line.ID, "tool", line.Tool)
	h.work.Go(func() {
		if after != nil {
			<-after
		}
		if err := h.cfg.Ledger.End(line); err != nil {
			h.log.Error("a late result cannot be written down yet", "call", line.ID, "err", err)
		}
	})
}

// topLevelTrue reports whether an object has a key of that name with the value
// true, without decoding the rest: a result can have megabytes.
func topLevelTrue(object json.RawMessage, key string) bool {
	quoted := `"` + key + `"`
	level := 0
	for i := 0; i < len(object); i++ {
		switch c := object[i]; c {
		case '{', '[':
			level++
		case '}', ']':
			level--
		case '"':
			end := i + 1
			for end < len(object) && object[end] != '"' {
				if object[end] == '\\' {
					end++
				}
				end++
			}
			if level == 1 && end < len(object) && string(object[i:end+1]) == quoted && valueIsTrue(object[end+1:]) {
				return true
			}
			i = end
		}
	}
	return false
}

// valueIsTrue looks at what follows a string: ": true" if it was a key.
func valueIsTrue(rest []byte) bool {
	colon := false
	for i, c := range rest {
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == ':' && !colon:
			colon = true
		default:
			return colon && len(rest) >= i+4 && string(rest[i:i+4]) == "true"
		}
	}
	return false
}
