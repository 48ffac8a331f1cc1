package hub

import (
	"encoding/json"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// call is one call from its arrival until nobody can ask for it any more.
// Everything is guarded by Hub.mu but the parts that never change.
//
// The states and the only ways between them:
//
//	queued ──handOver──▶ handed over ──accepted──▶ running
//	   ▲                     │
//	   └──── never arrived ──┘
//	any of the three ──end──▶ a final state, once
//
// While it is queued it may hold a slot (granted): its follower is making sure
// that the caller is there. While it is handed over it may not have been sent
// yet: its follower is writing the ledger.
type call struct {
	bridge.Call
	tier     bridge.Tier
	received time.Time
	argsHash string
	over     chan struct{} // closed when the end is in the ledger

	state    bridge.State
	since    time.Time // it is in this state
	target   string    // the host that it waits for; empty: whoever comes first
	byMain   bool      // addressed to main
	deadline time.Time // of the wait
	slot     *host     // whose slot it holds
	handing  bool      // a follower is handing it over
	offered  bool      // its caller's answer may have begun: the end can be asked for again
	sent     bool      // the frame may have left
	wasSent  bool      // at some time
	adopted  bool      // started by an earlier process
	before   <-chan struct{}
	after    chan struct{} // closed when calls of the same caller may pass

	instance string // of the host that has it
	hostName string // its name then
	link     *link  // nil: lost, or not sent
	linkID   int64  // of the request on it; 0: not known yet
	handed   time.Time
	waited   time.Duration

	approvalBy time.Time     // the owner is being asked; when we give up on the host's word
	approval   time.Duration // granted to the owner
	cancelWhy  bridge.Kind   // somebody cancelled it
	cancelBy   time.Time     // when we give up on the host's word about that

	follower *follower
	outcome  bridge.Outcome // once the state is final
	ended    time.Time
	settling bool
	settled  bool
	unsaved  bool // its end is not in the ledger yet
	recalled bool // it is in there already: the previous process ended it
	late     bool
	keepTill time.Time // zero: not kept
}

// ending is how a call ends, without what only the call knows.
type ending struct {
	state    bridge.State
	kind     bridge.Kind
	executed bridge.Executed
	retry    bridge.Retry
	result   json.RawMessage
	detail   string // for the text, where it has room for more
}

// handOver moves a granted call out of the queue. From here on it is never
// handed over again, unless it is proven not to have arrived.
func (h *Hub) handOver(c *call) {
	c.state = bridge.HandedOver
	c.since = h.now()
	c.handed = c.since
	c.waited = c.since.Sub(c.received)
	c.instance = c.slot.hello.Instance
	c.hostName = c.slot.name
	c.link = c.slot.link
	c.linkID = 0
}

// accepted moves a call that its host has confirmed.
func (h *Hub) accepted(c *call) {
	if c.state == bridge.HandedOver {
		c.state = bridge.Running
		c.since = h.now()
	}
}

// requeue moves a call back that has not been sent, or never arrived.
func (h *Hub) requeue(c *call) {
	h.release(c)
	c.state = bridge.Queued
	c.since = h.now()
	c.sent = false
	c.link = nil
	if c.byMain && c.target != h.names.Main {
		h.endMoved(c)
		return
	}
	if c.follower == nil {
		h.end(c, ending{state: bridge.Abandoned, kind: bridge.CallerGone, executed: bridge.ExecutedNo})
		return
	}
	h.wait(c)
	sortByArrival(h.queues[c.target].calls)
	c.nudge()
}

// end moves a call to its final state; it reports whether this was the end.
// Whoever follows the call writes it down; if nobody does, a goroutine.
func (h *Hub) end(c *call, e ending) bool {
	if c.state.Final() {
		return false
	}
	if c.state == bridge.Queued {
		h.dequeue(c)
		c.waited = h.now().Sub(c.received)
	}
	c.ended = h.now()
	c.outcome = bridge.Outcome{
		Call: c.ID, State: e.state, Kind: e.kind, Executed: e.executed, Retry: e.retry,
		Result: e.result, Waited: c.waited,
	}
	if e.result == nil {
		c.outcome.Text = h.text(c, e)
	}
	c.state = e.state
	c.since = c.ended
	c.approvalBy, c.cancelBy = time.Time{}, time.Time{}
	if c.recalled && e.result == nil {
		c.offered = false // so that nothing is kept
	}
	h.release(c)
	if c.follower != nil {
		c.nudge()
		return true
	}
	h.work.Go(func() { h.settle(c) })
	return true
}

// release gives the call's slot back, and lets its caller's next call pass.
func (h *Hub) release(c *call) {
	c.pass()
	ho := c.slot
	if ho == nil {
		return
	}
	c.slot = nil
	ho.slots--
	h.tellYou(ho)
	h.dispatch(ho)
}

// pass lets the caller's next call go to the host.
func (c *call) pass() {
	if c.after == nil {
		return
	}
	close(c.after)
	if c.slot != nil && c.slot.order[c.caller()] == c.after {
		delete(c.slot.order, c.caller())
	}
	c.after = nil
}

// caller is whose calls stay in order: a session's, or without one a token's.
func (c *call) caller() string {
	if c.Ref.Session != "" {
		return c.Ref.Session
	}
	return c.Peer.Token
}

func (c *call) size() int64 { return int64(len(c.Args)) }

// nudge makes the follower look again.
func (c *call) nudge() {
	if c.follower != nil {
		c.follower.nudge()
	}
}

// startLine is the ledger's line about a call that is being handed over.
func (c *call) startLine() bridge.CallStart {
	return bridge.CallStart{
		ID: c.ID, At: c.handed, Received: c.received, Peer: c.Peer.Name, Client: printable(c.Client.Name, maxShown),
		Tool: c.Tool, Tier: c.tier, Host: c.hostName, Instance: c.instance,
		ArgsBytes: len(c.Args), ArgsSHA256: c.argsHash, Ref: c.Ref,
	}
}

// endLine is the ledger's line about a call that is over.
func (c *call) endLine() bridge.CallEnd {
	e := bridge.CallEnd{
		ID: c.ID, At: c.ended, Peer: c.Peer.Name, Client: printable(c.Client.Name, maxShown),
		Tool: printable(c.Tool, maxNameChars), Host: c.hostName,
		State: c.outcome.State, Kind: c.outcome.Kind, Executed: c.outcome.Executed,
		Waited: c.waited, Bytes: len(c.outcome.Result),
	}
	if e.Host == "" {
		e.Host = c.target
	}
	if c.wasSent && !c.handed.IsZero() {
		e.Ran = c.ended.Sub(c.handed)
	}
	return e
}

// params is the frame's body.
func (c *call) params() hostlink.CallParams {
	return hostlink.CallParams{
		CallID: c.ID, Ref: hostlink.EncodeRef(c.Ref), Tool: c.Tool, Args: c.Args,
		Peer:       hostlink.PeerInfo{Name: c.Peer.Name, Client: printable(c.Client.Name, maxShown)},
		ApprovalMs: c.approval.Milliseconds(), WaitedMs: c.waited.Milliseconds(),
	}
}
