package mcpfront

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// exchange is one open answer to a call: the one to the request that made it,
// or one that continues it. It is the hub's watcher of the call.
//
// An answer is plain JSON until something makes it a stream: priming (for calls
// that may have effects, if the client can resume), progress, or ten seconds
// of silence.
type exchange struct {
	f       *Front
	r       *http.Request
	out     *answer
	peer    bridge.Peer
	call    bridge.Call // of one that continues a call: id and ref only
	modern  bool
	streams bool // the client takes event streams
	primes  bool // becomes resumable when the call is handed over
	resumed bool
	primed  bool // its client has an id to come back with; guarded by live.mu
	started time.Time
	notes   notes
	ctx     context.Context
	cancel  context.CancelCauseFunc
	left    chan struct{} // closed when the hub has let go of it
	dropped atomic.Bool   // the caller cancelled it
	handed  atomic.Bool   // a host was to get it
	stopped atomic.Bool   // it was not handed over because streams are being ended
	asking  atomic.Bool   // its owner is being asked
}

// leftBehind is for calls that outlive the daemon without their caller.
const leftBehind = "May have run: the bridge restarted while the call was running. Look at its effect before calling again. (call %s)"

// toolsCall runs a tool.
func (f *Front) toolsCall(q *request) {
	name, err := text(q.fields.get("name"))
	if err != nil || name == "" {
		q.fail(codeInvalidParams, "params.name must be the name of a tool")
		return
	}
	args := q.fields.get("arguments")
	if args == nil || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	tool, _ := q.view.Catalogue.Tool(name)
	x := f.newExchange(q.w, q.r, q.peer)
	x.modern = q.modern()
	x.streams = accepts(q.r, mediaSSE[0], false)
	x.primes = x.streams && q.session != nil && q.session.resumable() && !tool.ReadOnly()
	x.notes.token = q.progressToken()
	x.call = bridge.Call{
		ID: bridge.NewCallID(), Host: q.host, Tool: name, Args: compact(args), Peer: q.peer, Client: q.client,
		Ref: bridge.Ref{Front: "mcp", RPC: q.id, Revision: q.revision, Token: q.peer.Token, Peer: q.peer.Name},
	}
	if q.session != nil {
		x.call.Ref.Session = q.session.key
	}
	defer x.cancel(nil)
	if !f.live.enter(x) {
		x.deliver(bridge.Outcome{Call: x.call.ID, State: bridge.Refused, Kind: bridge.QueueFull})
		return
	}
	defer f.live.leave(x)
	x.run(func() (bridge.Outcome, error) { return f.cfg.Hub.Call(x.ctx, x.call, x) })
}

// resume continues the answer to a call on a new stream.
func (f *Front) resume(w http.ResponseWriter, r *http.Request, peer bridge.Peer, s *session, e *eventID) {
	x := f.newExchange(w, r, peer)
	x.streams, x.resumed, x.primed = true, true, true
	x.started = e.started
	x.handed.Store(true)
	x.notes.token = e.progress
	x.notes.count = progressBase(time.Since(e.started))
	x.call = bridge.Call{ID: e.call, Ref: bridge.Ref{
		Front: "mcp", Session: s.key, RPC: e.rpc, Revision: s.revision, Token: peer.Token, Peer: peer.Name}}
	defer x.cancel(nil)
	old, ok := f.live.returned(x)
	if !ok {
		_ = x.out.prime(x.event()) // a client that has left needs no answer
		x.end()
		return
	}
	defer f.live.leave(x)
	if old != nil {
		old.cancel(errReplaced)
		select {
		case <-old.left:
		case <-x.ctx.Done():
		}
	}
	if x.out.prime(x.event()) != nil {
		close(x.left) // the answer that takes its place need not wait
		f.departed(x)
		return
	}
	x.run(func() (bridge.Outcome, error) { return f.cfg.Hub.Join(x.ctx, e.call, peer.Token, x) })
}

func (f *Front) newExchange(w http.ResponseWriter, r *http.Request, peer bridge.Peer) *exchange {
	x := &exchange{f: f, r: r, out: newAnswer(w), peer: peer, started: time.Now(), left: make(chan struct{})}
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	return x
}

// run waits for the outcome of the call and answers with it.
func (x *exchange) run(wait func() (bridge.Outcome, error)) {
	if x.streams {
		x.notes.later(x.tick)
	}
	o, err := wait()
	close(x.left)
	x.notes.stop()
	cause := context.Cause(x.ctx)
	switch {
	case errors.Is(err, bridge.NotFound):
		x.deliver(bridge.Outcome{Call: x.call.ID, State: bridge.Unknown, Kind: bridge.NotFound})
	case err == nil && (x.stopped.Load() || o.State == bridge.Abandoned && errors.Is(cause, errEnded)):
		x.deliver(bridge.Outcome{Call: x.call.ID, State: bridge.Refused, Kind: bridge.Stopping})
	case err == nil:
		x.conclude(o)
	case errors.Is(cause, errStuck):
		x.out.close()
		x.f.departed(x)
	case x.r.Context().Err() != nil:
		x.end()
		x.f.departed(x)
	case cause != nil || x.f.live.isPrimed(x): // the client knows why, or comes back
		x.end()
	default: // the hub is stopping, and this client cannot come back
		x.deliver(bridge.Outcome{Call: x.call.ID, State: bridge.Unknown, Kind: bridge.Stopping,
			Executed: bridge.ExecutedUnknown, Retry: bridge.RetryCheck, Text: fmt.Sprintf(leftBehind, x.call.ID)})
	}
}

// HandOver makes sure that the caller is still there and starts a resumable
// answer; see bridge.Watcher.
func (x *exchange) HandOver() error {
	if x.dropped.Load() || x.ctx.Err() != nil || callerGone(x.r.Context()) {
		return bridge.CallerGone
	}
	if x.primes && !x.handed.Load() {
		if !x.f.live.prime(x) {
			x.stopped.Store(true)
			return bridge.Stopping
		}
		if x.out.prime(x.event()) != nil {
			return bridge.CallerGone
		}
	}
	x.handed.Store(true)
	return nil
}

// event is an id with which the client can come back for this answer.
func (x *exchange) event() string {
	return eventID{kind: eventOfCall, session: x.call.Ref.Session, call: x.call.ID, rpc: x.call.Ref.RPC,
		progress: x.notes.token, started: x.started}.seal(x.f.events)
}

// conclude answers with an outcome, unless the caller ended the call itself. A
// client that comes back for a call which ended that way is told, since it may
// wait for an answer all the same.
func (x *exchange) conclude(o bridge.Outcome) {
	if o.Result == nil && reasons[o.Kind].silent && (!x.resumed || x.dropped.Load()) {
		x.end()
		return
	}
	if x.handed.Load() && (x.r.Context().Err() != nil || callerGone(x.r.Context())) {
		x.end() // it may come back for it
		return
	}
	if x.deliver(o) {
		x.f.cfg.Hub.Delivered(o.Call)
	}
}

// end finishes the answer without a response. It never leaves the status to
// net/http: a caller who closed only its sending half would take an empty 200
// for a result.
func (x *exchange) end() {
	x.out.mu.Lock()
	switch {
	case x.out.stream || x.out.closed:
	case x.streams:
		x.out.begin()
	default:
		x.out.w.WriteHeader(http.StatusAccepted)
	}
	x.out.mu.Unlock()
	x.out.close()
}

// deliver writes the outcome as the call's one response, after any progress
// that is not written yet. It reports whether that worked.
func (x *exchange) deliver(o bridge.Outcome) bool {
	result, status := o.Result, http.StatusOK
	if !sound(result) {
		if result != nil {
			o = bridge.Outcome{Call: o.Call, State: bridge.Failed, Kind: bridge.HostFault,
				Executed: bridge.ExecutedYes, Waited: o.Waited}
		}
		var row reason
		if o, row = complete(o, x.call.Tool); row.status != 0 && o.Executed == bridge.ExecutedNo {
			status = row.status
		}
		result = errorResult(o)
	}
	parts := [][]byte{envelope(x.call.Ref.RPC)}
	if x.modern && !hasResultType(result) {
		parts, result = append(parts, []byte(`{"resultType":"complete"`)), result[1:]
		if trim(result)[0] != '}' {
			parts = append(parts, []byte(","))
		}
	}
	parts = append(parts, result, envelopeEnd)

	a := x.out
	a.mu.Lock()
	var err error
	if note := x.notes.take(); note != nil {
		err = a.put(eventHead, note, eventTail)
	}
	switch {
	case err != nil:
	case a.stream:
		err = a.put(append(append([][]byte{eventHead}, oneLine(parts)...), eventTail)...)
	default:
		if status != http.StatusOK {
			a.w.Header().Set("Retry-After", "1")
		}
		err = writeJSON(a.w, status, parts...)
	}
	a.mu.Unlock()
	a.close()
	return err == nil
}

// hasResultType reports whether a result says of which type it is.
func hasResultType(result json.RawMessage) bool {
	if !bytes.Contains(result, []byte("resultType")) {
		return false
	}
	o, err := members(result)
	return err == nil && o.get("resultType") != nil
}

// oneLine makes parts fit for an event: a line end in them can only be white
// space between tokens.
func oneLine(parts [][]byte) [][]byte {
	for i, p := range parts {
		if bytes.IndexByte(p, '\r') >= 0 || bytes.IndexByte(p, '\n') >= 0 {
			parts[i] = bytes.Map(func(r rune) rune {
				if r == '\r' || r == '\n' {
					return ' '
				}
				return r
			}, p)
		}
	}
	return parts
}
