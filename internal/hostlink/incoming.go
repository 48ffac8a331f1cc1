package hostlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Incoming is a request of the other side that is in work here.
type Incoming struct {
	ID     int64
	Method string
	Params json.RawMessage

	conn     *Conn
	cancel   context.CancelCauseFunc
	answered atomic.Bool
}

// Event sends an event about the request.
func (r *Incoming) Event(method string, params any) error {
	return r.conn.Event(r.ID, method, params)
}

// Reply answers the request before its handler returns; what the handler
// returns is then ignored. It is for an answer that must have left before
// something else does, such as the welcome before the first call.
func (r *Incoming) Reply(result json.RawMessage) error {
	return r.answer(result, nil)
}

// answer sends the one answer. A result over the limit becomes an error that
// says so.
func (r *Incoming) answer(result json.RawMessage, e *Error) error {
	if !r.answered.CompareAndSwap(false, true) {
		return nil
	}
	r.conn.mu.Lock()
	if r.conn.incoming[r.ID] == r { // a ping may bear the id of a call
		delete(r.conn.incoming, r.ID)
	}
	r.conn.mu.Unlock()
	if e == nil {
		body, err := payload(result)
		if err == nil {
			err = r.conn.w.frame(r.ID, "", "result", body)
		}
		var refused *Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused):
			e = &Error{Kind: KindResultTooLarge, Executed: bridge.ExecutedYes, Message: refused.Message}
		case errors.Is(err, ErrLinkLost):
			return err
		default:
			e = &Error{Kind: KindFault, Executed: bridge.ExecutedYes, Message: "the result is not JSON"}
		}
	}
	body, err := marshal(e)
	if err != nil {
		return fmt.Errorf("encode an error: %w", err)
	}
	return r.conn.w.frame(r.ID, "", "error", body)
}

// asked starts the work on a request of the other side.
func (c *Conn) asked(f frame) error {
	switch f.method {
	case MethodHello, MethodCall, MethodRequest:
		r, rctx, err := c.take(f.id)
		if err != nil {
			return err
		}
		r.Method, r.Params = f.method, f.body
		c.work.Go(func() { c.serve(rctx, r, c.handler.Request) })
	case MethodPing:
		return c.atOnce(f.id, nil)
	default:
		c.unknown(f.method)
		return c.atOnce(f.id, &Error{Kind: KindUnknownMethod, Executed: bridge.ExecutedNo, Message: "unknown method " + f.method})
	}
	return nil
}

// atOnce answers without a handler, off the read loop. These are counted apart
// from the requests in work, which must not keep a ping from its answer.
func (c *Conn) atOnce(id int64, e *Error) error {
	if c.waiting.Add(1) > maxIncoming {
		c.waiting.Add(-1)
		return errTooMany
	}
	c.work.Go(func() {
		defer c.waiting.Add(-1)
		_ = (&Incoming{ID: id, conn: c}).answer(nil, e) // the link's end shows in Run
	})
	return nil
}

// resume takes a request that the other side has counted as id on this link
// without sending it. It must be called on the read loop.
func (c *Conn) resume(id int64, work func(context.Context, *Incoming) (json.RawMessage, *Error)) error {
	r, rctx, err := c.take(id)
	if err != nil {
		return err
	}
	c.work.Go(func() { c.serve(rctx, r, work) })
	return nil
}

var errTooMany = fmt.Errorf("more than %d requests at once", maxIncoming)

// take registers a request of the other side.
func (c *Conn) take(id int64) (*Incoming, context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.incoming[id] != nil {
		return nil, nil, errors.New("the id of a request is in use")
	}
	if len(c.incoming) >= maxIncoming {
		return nil, nil, errTooMany
	}
	ctx, cancel := context.WithCancelCause(c.link)
	r := &Incoming{ID: id, conn: c, cancel: cancel}
	c.incoming[id] = r
	return r, ctx, nil
}

func (c *Conn) serve(ctx context.Context, r *Incoming, work func(context.Context, *Incoming) (json.RawMessage, *Error)) {
	defer r.cancel(nil)
	result, e := work(ctx, r)
	if errors.Is(context.Cause(ctx), ErrLinkLost) {
		return
	}
	if err := r.answer(result, e); err != nil {
		c.log.Debug("an answer did not leave", "err", err)
	}
}

func sortedKeys[V any](m map[int64]V) []int64 { return slices.Sorted(maps.Keys(m)) }
