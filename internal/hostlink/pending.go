package hostlink

import (
	"context"
	"encoding/json"
)

// pending is a request of ours that is not answered yet.
type pending struct {
	events func(method string, params json.RawMessage)
	done   func(result json.RawMessage, err error)
}

// Start sends a request and returns its id without waiting for the answer.
// events (may be nil) hears the events about it, done its end, exactly once:
// with the raw result, an *Error of the other side, or ErrLinkLost. Both are
// called on the read loop in the order of the frames, possibly before Start
// returns, and must not block; what they are given is theirs. When Start itself
// returns an error, nothing was sent in full and done is never called; a
// request over MaxFrame is such an error (an *Error), and the link goes on.
func (c *Conn) Start(method string, params any, events func(string, json.RawMessage), done func(json.RawMessage, error)) (int64, error) {
	body, err := payload(params)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return 0, ErrLinkLost
	}
	c.lastID++
	id := c.lastID
	c.pending[id] = &pending{events: events, done: done}
	c.mu.Unlock()
	if err := c.w.frame(id, method, "params", body); err != nil {
		if c.forget(id) {
			return 0, err
		}
		// The end of the link has reached done already.
	}
	return id, nil
}

// NextID reserves an id for Adopt: no request of ours on this link has it, not
// even a ping that left before.
func (c *Conn) NextID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return c.lastID
}

// Adopt registers a request that the other side works on since an earlier
// link: it will be answered under id, as if it had been started here. Later
// ids are higher.
func (c *Conn) Adopt(id int64, events func(string, json.RawMessage), done func(json.RawMessage, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ErrLinkLost
	}
	c.pending[id] = &pending{events: events, done: done}
	c.lastID = max(c.lastID, id)
	return nil
}

// Do sends a request and waits for its answer: the raw result, an *Error of
// the other side, ErrLinkLost, or the cause of ctx, after which the answer is
// ignored. events is as for Start.
func (c *Conn) Do(ctx context.Context, method string, params any, events func(string, json.RawMessage)) (json.RawMessage, error) {
	type answer struct {
		result json.RawMessage
		err    error
	}
	got := make(chan answer, 1)
	id, err := c.Start(method, params, events, func(result json.RawMessage, err error) { got <- answer{result, err} })
	if err != nil {
		return nil, err
	}
	select {
	case a := <-got:
		return a.result, a.err
	case <-ctx.Done():
		c.forget(id)
		return nil, context.Cause(ctx)
	}
}

// Event sends an event about a request: about our own, that is cancel.
func (c *Conn) Event(id int64, method string, params any) error {
	body, err := payload(params)
	if err != nil {
		return err
	}
	return c.w.frame(id, method, "params", body)
}

// Notify sends a notice.
func (c *Conn) Notify(method string, params any) error {
	return c.Event(0, method, params)
}

// forget drops a request of ours and reports whether it was still open.
func (c *Conn) forget(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.pending[id]
	delete(c.pending, id)
	return open
}

// answered ends a request of ours. An answer to an unknown one is ignored.
func (c *Conn) answered(id int64, result json.RawMessage, e *Error) {
	c.mu.Lock()
	p := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	switch {
	case p == nil:
	case e != nil:
		p.done(nil, e)
	default:
		p.done(result, nil)
	}
}

// endAll ends every open request of ours, in the order in which they were
// made. Nothing can be added after it.
func (c *Conn) endAll() {
	c.mu.Lock()
	c.over = true
	open := c.pending
	c.pending = make(map[int64]*pending)
	c.mu.Unlock()
	for _, id := range sortedKeys(open) {
		open[id].done(nil, ErrLinkLost)
	}
}
