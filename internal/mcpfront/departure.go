package mcpfront

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// How long a call goes on after its client closed a resumable answer.
const (
	// deliberate: the session's own event stream stayed open, so the client is
	// there and meant it. Clients that lost one connection of several come back
	// within retryMillis.
	deliberate = 1500 * time.Millisecond
	// broken: everything of the client went together, as when its tunnel breaks.
	broken = 15 * time.Second
)

// departure is a call whose client closed a resumable answer and has not come
// back for it yet.
type departure struct {
	call  bridge.CallID
	feed  *feed // the session's event stream when it happened
	timer *time.Timer
}

// departed decides what a closed request means, once the call goes on without
// a watcher.
func (f *Front) departed(x *exchange) {
	l := f.live
	l.mu.Lock()
	if !x.primed {
		l.mu.Unlock()
		f.drop(x.call.ID)
		return
	}
	defer l.mu.Unlock()
	if l.holders[x.call.ID] != x || l.ended {
		return // it came back already, or comes back to the next daemon
	}
	d := &departure{call: x.call.ID, feed: l.feeds[x.call.Ref.Session]}
	l.lost[d.call] = d
	wait := broken
	if d.feed != nil {
		wait = deliberate
	}
	d.timer = time.AfterFunc(wait, func() { f.expire(d) })
}

// expire cancels a call whose client stayed away. When the event stream broke
// in the meantime, it was the line after all.
func (f *Front) expire(d *departure) {
	l := f.live
	l.mu.Lock()
	if l.lost[d.call] != d {
		l.mu.Unlock()
		return
	}
	// The same stream as then: one that was opened since says nothing about why.
	if d.feed != nil && !l.isOpen(d.feed) {
		d.feed = nil
		d.timer = time.AfterFunc(broken-deliberate, func() { f.expire(d) })
		l.mu.Unlock()
		return
	}
	delete(l.lost, d.call)
	l.mu.Unlock()
	f.drop(d.call)
}

// isOpen reports whether a session's stream is still the one it had. mu is held.
func (l *live) isOpen(f *feed) bool { return l.feeds[f.session] == f }

// returned notes that a client came back for a call, and gives the answer that
// was open for it until now. The new one takes its place, so there are never
// more than calls. It is false when streams are being ended.
func (l *live) returned(x *exchange) (*exchange, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.lost[x.call.ID]; d != nil {
		d.timer.Stop()
		delete(l.lost, x.call.ID)
	}
	if l.ended {
		return nil, false
	}
	old := l.holders[x.call.ID]
	l.caller(x.peer).answers[x] = struct{}{}
	l.holders[x.call.ID] = x
	return old, true
}

// drop cancels one call whose caller has gone.
func (f *Front) drop(id bridge.CallID) {
	f.cfg.Hub.Cancel(func(c bridge.Call) bool { return c.ID == id }, bridge.CallerGone)
}

// cancel ends the calls of a session with a JSON-RPC id, or all of them when
// it is nil, on the word of their caller.
func (f *Front) cancel(peer bridge.Peer, session string, rpc json.RawMessage) {
	open := f.live.matching(peer.Token, session, rpc)
	n := f.cfg.Hub.Cancel(func(c bridge.Call) bool {
		return c.Ref.Session == session && c.Ref.Token == peer.Token && (rpc == nil || bytes.Equal(c.Ref.RPC, rpc))
	}, bridge.CancelledByPeer)
	if n >= len(open) {
		return
	}
	// Some are on their way into the hub, or out of it already.
	for _, x := range open {
		x.cancel(errCancelled)
	}
}
