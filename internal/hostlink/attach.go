package hostlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

const (
	// sweepEvery is how often kept answers are looked at.
	sweepEvery = time.Minute
	// maxLates bounds the late notices that wait for a link.
	maxLates = 64
)

// told is what the daemon knows of us on one link.
type told struct {
	hash  string
	state StateNotice
}

// hello says who we are now.
func (h *Host) hello() (Hello, told) {
	hello := h.cfg.Hello
	hello.Protocol = Protocol
	hello.Running, hello.Unacked = h.calls.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	hello.Catalogue = h.notice.Hash
	hello.State, hello.Session = h.state.State, h.state.Session
	return hello, told{hash: hello.Catalogue, state: h.state}
}

// welcomed takes the answer to our hello, on the read loop: calls of this
// link come after it.
func (h *Host) welcomed(conn *Conn, hello Hello, t *told, result json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	var w Welcome
	if err := json.Unmarshal(result, &w); err != nil {
		return fmt.Errorf("read the bridge's welcome: %w", err)
	}
	if w.Catalogue != CatalogueKnown {
		t.hash = ""
	}
	wanted := make(map[bridge.CallID]bool, len(w.Resumed))
	for _, r := range w.Resumed {
		wanted[r.CallID] = true
		work := lost
		if c := h.calls.find(r.CallID); c != nil {
			work = func(ctx context.Context, r *Incoming) (json.RawMessage, *Error) { return c.serve(ctx, h.calls, r) }
		}
		if err := conn.resume(r.ID, work); err != nil {
			return fmt.Errorf("resume %s: %w", r.CallID, err)
		}
	}
	for _, refs := range [][]CallRef{hello.Running, hello.Unacked} {
		for _, ref := range refs {
			if c := h.calls.find(ref.CallID); c != nil && !wanted[ref.CallID] {
				h.calls.drop(c)
			}
		}
	}
	if h.cfg.OnWelcome != nil {
		h.cfg.OnWelcome(w)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn = conn
	close(h.attached)
	return nil
}

// lost answers for a call that is not here any more.
func lost(context.Context, *Incoming) (json.RawMessage, *Error) {
	return nil, &Error{Kind: KindFault, Message: "the host does not keep this call any more", Executed: bridge.ExecutedUnknown}
}

// announce tells every change until the link or ctx ends; at the end of ctx
// it says bye.
func (h *Host) announce(ctx context.Context, conn *Conn, t told, ended chan error) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		if err := h.tell(conn, &t); err != nil {
			return err
		}
		select {
		case err := <-ended:
			ended <- err // attach reads it too
			return err
		case <-ctx.Done():
			return conn.Notify(MethodBye, Bye{Reason: ByeClosed})
		case <-h.dirty:
		case <-sweep.C:
			h.calls.sweep()
		}
	}
}

// tell sends what the daemon does not know yet.
func (h *Host) tell(conn *Conn, t *told) error {
	h.mu.Lock()
	tools, state := h.notice, h.state
	h.mu.Unlock()
	if tools.Hash != t.hash && tools.Hash != "" {
		err := conn.Notify(MethodTools, tools)
		var refused *Error
		if errors.As(err, &refused) { // the link is whole; trying again would not help
			h.log.Error("the catalogue was not sent", "err", err)
		} else if err != nil {
			return fmt.Errorf("send the catalogue: %w", err)
		}
		t.hash = tools.Hash
	}
	if state != t.state {
		if err := conn.Notify(MethodState, state); err != nil {
			return fmt.Errorf("send the state: %w", err)
		}
		t.state = state
	}
	for late, ok := h.nextLate(); ok; late, ok = h.nextLate() {
		if err := conn.Notify(MethodLate, late); err != nil {
			h.late(late.CallID, late.IsError) // for the next link
			return fmt.Errorf("send a late result: %w", err)
		}
	}
	return nil
}

func (h *Host) nextLate() (Late, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lates) == 0 {
		return Late{}, false
	}
	late := h.lates[0]
	h.lates = h.lates[1:]
	return late, true
}

// late remembers a result of a call that had ended as one that did not run.
func (h *Host) late(id bridge.CallID, isError bool) {
	h.mu.Lock()
	if len(h.lates) < maxLates {
		h.lates = append(h.lates, Late{CallID: id, IsError: isError})
	}
	h.mu.Unlock()
	h.changed()
}

// hostHandler is the Host as its Conn sees it.
type hostHandler Host

// Request implements Handler.
func (hh *hostHandler) Request(ctx context.Context, r *Incoming) (json.RawMessage, *Error) {
	h := (*Host)(hh)
	if r.Method != MethodCall {
		return nil, &Error{Kind: KindUnknownMethod, Message: "a host does not answer " + r.Method, Executed: bridge.ExecutedNo}
	}
	var p CallParams
	if err := json.Unmarshal(r.Params, &p); err != nil || p.CallID == "" {
		return nil, &Error{Kind: KindFault, Message: "the params of call cannot be read", Executed: bridge.ExecutedNo}
	}
	c, fresh := h.calls.begin(p, h.cfg.LatestProgress)
	if fresh {
		if refusal := h.refusal(p); refusal != nil {
			c.finish(h.calls, nil, refusal)
		} else {
			h.start(c, p)
		}
	}
	return c.serve(ctx, h.calls, r)
}

// refusal is why a call cannot start, if so.
func (h *Host) refusal(p CallParams) *Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state.State == StateNotReady:
		return &Error{Kind: KindNotReady, Message: "there is nothing to run the tool in", Executed: bridge.ExecutedNo}
	case !h.tools[p.Tool]:
		return &Error{Kind: KindUnknownTool, Message: fmt.Sprintf("no tool %q", clip(p.Tool, 128)), Executed: bridge.ExecutedNo}
	}
	return nil
}

func (h *Host) start(c *call, p CallParams) {
	h.calls.work.Go(func() {
		late, isError := c.run(h.calls, func(ctx context.Context) (json.RawMessage, *Error) {
			return h.cfg.Run(ctx, p, emitter{call: c, host: h})
		})
		if late {
			h.late(p.CallID, isError)
		}
	})
}

// Notice implements Handler.
func (hh *hostHandler) Notice(method string, params json.RawMessage) {
	h := (*Host)(hh)
	var err error
	switch method {
	case MethodAck:
		var ack Ack
		if err = json.Unmarshal(params, &ack); err == nil {
			h.calls.ack(ack.CallID)
		}
	case MethodYou:
		var you You
		if err = json.Unmarshal(params, &you); err == nil && h.cfg.OnYou != nil {
			h.cfg.OnYou(you)
		}
	}
	if err != nil {
		h.log.Warn("the bridge sent a notice that cannot be read", "method", method, "err", err)
	}
}
