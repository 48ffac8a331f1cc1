package hostlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Limits on the answers that a host keeps until they are acked.
const (
	keepFor   = 10 * time.Minute
	keepBytes = 64 << 20 // of results
	// keepCount leaves room in a hello for the calls that run.
	keepCount = 2048
	// frameRoom is more than the head and the end of any frame.
	frameRoom = 128
)

var (
	errNotWanted   = errors.New("the bridge does not want the call any more")
	errNotApproved = errors.New("not approved in time")
	errHostStops   = errors.New("the host stops")
)

// calls is what a host knows of its calls: those that run and those whose
// answers wait for their ack.
type calls struct {
	limit int            // of the bytes of kept results
	work  sync.WaitGroup // the tools that run

	mu    sync.Mutex
	byID  map[bridge.CallID]*call
	order []*call // as they arrived
	kept  int     // answers
	bytes int     // of their results
}

// call is one invocation, from its arrival to its ack. mu also keeps its
// frames in order: it is held while one of them is written.
type call struct {
	ref      CallRef
	approval time.Duration   // how long its owner may take; 0: without limit
	ctx      context.Context // the tool's
	cancel   context.CancelCauseFunc
	over     chan struct{} // closed when the answer stands

	mu       sync.Mutex
	route    *Incoming // where events go; nil without a link
	ran      bool      // the tool was started
	gate     string    // the last state of its approval, if it has one
	deadline *time.Timer
	progress throttle
	saidNo   bool // it ended with the word that nothing ran

	// The answer: set before over is closed, guarded by calls.mu after.
	result json.RawMessage
	err    *Error

	// Guarded by calls.mu.
	ended  time.Time // zero: its answer is not kept
	asking int       // requests that wait for the answer, on a link
	acked  bool
	forgot bool
}

func newCalls() *calls {
	return &calls{limit: keepBytes, byID: make(map[bridge.CallID]*call)}
}

// begin finds the call or makes it; fresh says which.
func (k *calls) begin(p CallParams, latest bool) (c *call, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.byID[p.CallID]; c != nil {
		return c, false
	}
	ctx, cancel := context.WithCancelCause(context.Background()) //nolint:forbidigo // a call outlives the link that brought it
	c = &call{ref: CallRef{CallID: p.CallID, Ref: p.Ref}, approval: time.Duration(p.ApprovalMs) * time.Millisecond, ctx: ctx, cancel: cancel, over: make(chan struct{})}
	c.progress.latest = latest
	k.byID[p.CallID] = c
	k.order = append(k.order, c)
	return c, true
}

func (k *calls) find(id bridge.CallID) *call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byID[id]
}

// keep counts a finished call's answer and makes room.
func (k *calls) keep(c *call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.acked || c.forgot {
		k.forget(c)
		return
	}
	c.ended = time.Now()
	k.kept++
	k.bytes += len(c.result)
	k.trim()
}

// ack lets an answer go. An ack of a running call lets its answer go unkept.
func (k *calls) ack(id bridge.CallID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.byID[id]
	if c == nil {
		return
	}
	c.acked = true
	if !c.ended.IsZero() {
		k.forget(c)
	}
}

// drop aborts a call that nobody wants and forgets it.
func (k *calls) drop(c *call) {
	c.abort(k, errNotWanted)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(c)
}

// sweep forgets answers that were kept for long enough.
func (k *calls) sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trim()
}

// trim lets the oldest answers go until the limits hold. Of one that goes before
// its time, the fact that the tool ran stays: without it the daemon would take
// the call for one that never arrived. The caller holds mu.
func (k *calls) trim() {
	old := time.Now().Add(-keepFor)
	for i := 0; i < len(k.order); {
		c := k.order[i]
		switch {
		case c.ended.IsZero() || c.asking > 0:
		case c.ended.Before(old) || k.kept > keepCount:
			k.forget(c) // takes it out of order
			continue
		case k.bytes > k.limit && c.result != nil:
			k.bytes -= len(c.result)
			c.result, c.err = nil, &Error{Kind: KindFault, Executed: bridge.ExecutedYes,
				Message: "the tool ran, and its result was let go: too many waited for the bridge"}
		}
		i++
	}
}

// forget drops a call from the tables. The caller holds mu.
func (k *calls) forget(c *call) {
	if c.forgot {
		return
	}
	c.forgot = true
	if !c.ended.IsZero() {
		k.kept--
		k.bytes -= len(c.result)
	}
	delete(k.byID, c.ref.CallID)
	for i, o := range k.order {
		if o == c {
			k.order = append(k.order[:i], k.order[i+1:]...)
			break
		}
	}
}

// list says what a hello must: the calls that run and the answers kept.
func (k *calls) list() (running, unacked []CallRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.order {
		select {
		case <-c.over:
			unacked = append(unacked, c.ref)
		default:
			running = append(running, c.ref)
		}
	}
	return running, unacked
}

// stop aborts what runs and waits for it.
func (k *calls) stop() {
	k.mu.Lock()
	for _, c := range k.order {
		c.cancel(errHostStops)
	}
	k.mu.Unlock()
	k.work.Wait()
}

// run starts the tool unless the call has ended already, and takes its answer.
// It reports an answer that came after the call had ended as one that did not run.
func (c *call) run(k *calls, tool func(context.Context) (json.RawMessage, *Error)) (late, isError bool) {
	defer c.cancel(nil)
	c.mu.Lock()
	if c.isOver() {
		c.mu.Unlock()
		return false, false
	}
	c.ran = true
	c.mu.Unlock()
	result, e := tool(c.ctx)
	if e == nil && len(result)+frameRoom > MaxFrame {
		e = &Error{Kind: KindResultTooLarge, Executed: bridge.ExecutedYes,
			Message: fmt.Sprintf("the result has %d bytes; the link carries at most %d", len(result), MaxFrame-frameRoom)}
		result = nil
	}
	if e == nil {
		if err := EachField(result, nil); err != nil {
			result, e = nil, &Error{Kind: KindFault, Message: "the tool's result is " + err.Error(), Executed: bridge.ExecutedYes}
		}
	}
	if c.finish(k, result, e) || (e != nil && e.Executed != bridge.ExecutedYes) {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saidNo, e != nil || isErrorResult(result)
}

// isErrorResult reads the one field of a CallToolResult that we look at.
func isErrorResult(result json.RawMessage) bool {
	failed := false
	_ = EachField(result, func(key, value []byte) error { // it has been checked
		if string(key) == "isError" {
			failed = string(value) == "true"
		}
		return nil
	})
	return failed
}

// finish gives the call its answer, once; it reports whether this was it.
func (c *call) finish(k *calls, result json.RawMessage, e *Error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finishLocked(k, result, e)
}

func (c *call) finishLocked(k *calls, result json.RawMessage, e *Error) bool {
	if c.isOver() {
		return false
	}
	c.flush(true)
	if c.deadline != nil {
		c.deadline.Stop()
	}
	c.result, c.err = result, e
	c.saidNo = e != nil && e.Executed == bridge.ExecutedNo
	close(c.over)
	k.keep(c)
	return true
}

// abort ends a call before its tool has answered, and tells the tool. What the
// answer says of the tool is true: it cannot start in between.
func (c *call) abort(k *calls, cause error) {
	c.mu.Lock()
	c.finishLocked(k, nil, &Error{Kind: KindCancelled, Message: cause.Error(), Executed: c.executed()})
	c.mu.Unlock()
	c.cancel(cause)
}

// executed says whether the tool may have had effects so far. The caller holds
// mu.
func (c *call) executed() bridge.Executed {
	if !c.ran || c.gate == ApprovalPending || c.gate == ApprovalDenied {
		return bridge.ExecutedNo
	}
	return bridge.ExecutedUnknown
}

// serve answers one request about the call: it waits for the answer, a cancel
// or the end of the link.
func (c *call) serve(ctx context.Context, k *calls, r *Incoming) (json.RawMessage, *Error) {
	k.asks(c, 1)
	defer k.asks(c, -1)
	c.join(r)
	select {
	case <-c.over:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if !errors.Is(cause, ErrCancelled) {
			c.leave(r)
			return nil, nil
		}
		c.abort(k, cause)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return c.result, c.err
}

// asks counts a request that waits for the answer, which stays until then.
func (k *calls) asks(c *call, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.asking += n
}

// join confirms the call on a link and sends its events there from now on.
func (c *call) join(r *Incoming) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = r.Event(MethodAccepted, nil) // a lost link shows in its Run
	if c.isOver() {
		return
	}
	c.route = r
	if c.gate != "" {
		_ = r.Event(MethodApproval, Approval{State: c.gate})
	}
	c.flush(false)
}

func (c *call) leave(r *Incoming) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.route == r {
		c.route = nil
	}
}
