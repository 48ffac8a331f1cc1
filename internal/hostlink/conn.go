package hostlink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

const (
	// PingEvery is how often each side asks for a sign of life.
	PingEvery = 5 * time.Second
	// FrozenAfter is the silence after which the other side counts as frozen.
	FrozenAfter = 15 * time.Second
	// HelloLimit is how long a new link may stay without a hello.
	HelloLimit = 10 * time.Second

	// maxFaults unreadable lines end a link: the other side is not ours.
	maxFaults = 16
	// maxIncoming bounds the requests of the other side that are in work.
	maxIncoming = 1024
	// maxLogged bounds the unknown methods that are logged, each once.
	maxLogged = 16
)

var (
	// ErrLinkLost is why a request has no answer when the link ended first.
	ErrLinkLost = errors.New("the link to the other side ended")
	// ErrCancelled is why a request's context ended when the asking side
	// cancelled it.
	ErrCancelled = errors.New("cancelled by the asking side")
	// ErrFaults is why a link ended that carried too many unreadable lines.
	ErrFaults = errors.New("too many unreadable lines")
)

// CancelError is the cause of a cancelled request's context. It is
// ErrCancelled and carries the reason that came with it.
type CancelError struct{ Reason string }

func (e *CancelError) Error() string { return ErrCancelled.Error() + ": " + e.Reason }

// Is makes the error ErrCancelled.
func (e *CancelError) Is(target error) bool { return target == ErrCancelled }

// Handler takes what the other side asks and tells.
type Handler interface {
	// Request answers one request, on a goroutine of its own, with a raw
	// result or an error. Its ctx ends when the asking side cancels
	// (context.Cause is ErrCancelled) and when the link ends (ErrLinkLost);
	// Run returns only after every Request has.
	Request(ctx context.Context, r *Incoming) (json.RawMessage, *Error)
	// Notice is called in the order of arrival, on the read loop. It must not
	// block. params are its to keep.
	Notice(method string, params json.RawMessage)
}

// Conn is one end of a link. All methods may be called by many goroutines at
// once. A method that sends returns when the frame has left, and waits for a
// slow reader for at most 30 s, after which the link is closed.
type Conn struct {
	conn    net.Conn
	handler Handler
	log     *slog.Logger
	w       writer
	born    time.Time
	heard   atomic.Int64 // since born
	pinging atomic.Bool  // a ping of ours is unanswered
	waiting atomic.Int32 // answers to pings and to what we do not know that have not left
	work    sync.WaitGroup

	mu       sync.Mutex
	lastID   int64
	pending  map[int64]*pending
	incoming map[int64]*Incoming
	over     bool // nothing may be added to the two maps any more

	// The read loop's own.
	link   context.Context // parent of every request's context; ends with the link
	faults int
	logged map[string]bool
}

// NewConn makes an end of the link over c. It does nothing until Run, except
// that it can send.
func NewConn(c net.Conn, h Handler, log *slog.Logger) *Conn {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Conn{
		conn: c, handler: h, log: log, born: time.Now(),
		w:        writer{conn: c, limit: writeLimit},
		pending:  make(map[int64]*pending),
		incoming: make(map[int64]*Incoming),
		logged:   make(map[string]bool),
	}
}

// LastHeard says when the last frame arrived; before the first, when the link
// began.
func (c *Conn) LastHeard() time.Time { return c.born.Add(time.Duration(c.heard.Load())) }

// Close ends the link; Run returns soon after.
func (c *Conn) Close() { c.w.close() }

// Run reads the link until it ends or ctx does, and closes it. Open requests
// of both sides end with ErrLinkLost. It returns nil when the other side
// closed the link between two frames, and what went wrong otherwise.
func (c *Conn) Run(ctx context.Context) error {
	link, end := context.WithCancelCause(context.WithoutCancel(ctx)) // its end always says ErrLinkLost
	defer end(ErrLinkLost)
	c.link = link
	stop := context.AfterFunc(ctx, c.w.close)
	defer stop()
	c.work.Go(func() { c.ping(link) })

	err := c.read()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	end(ErrLinkLost)
	c.w.close()
	c.endAll()
	c.work.Wait()
	return err
}

func (c *Conn) read() error {
	lines := NewLineReader(c.conn, MaxFrame)
	for {
		line, owned, err := lines.Next()
		var long *TooLongError
		switch {
		case errors.As(err, &long):
			c.spoiled(long.Head, &Error{Kind: KindResultTooLarge, Executed: bridge.ExecutedYes, Message: err.Error()})
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", ErrLinkLost, err)
		default:
			c.heard.Store(int64(time.Since(c.born)))
			var f frame
			if f, err = parseFrame(line); err == nil {
				if !owned {
					f.body = append(json.RawMessage(nil), f.body...)
				}
				err = c.dispatch(f)
			} else {
				c.spoiled(line, &Error{Kind: KindFault, Executed: bridge.ExecutedUnknown, Message: "the answer cannot be read: " + err.Error()})
			}
		}
		if err != nil && !c.fault(err) {
			return ErrFaults
		}
	}
}

// spoiled ends the request of ours that an unreadable line was to answer: no
// other answer will come.
func (c *Conn) spoiled(line []byte, e *Error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"id":`))
	if !ok {
		return
	}
	digits, rest, _ := bytes.Cut(rest, []byte(","))
	id, err := parseID(digits)
	if err == nil && (bytes.HasPrefix(rest, []byte(`"result"`)) || bytes.HasPrefix(rest, []byte(`"error"`))) {
		c.answered(id, nil, e)
	}
}

// dispatch hands a frame to whom it concerns. Its error is a fault.
func (c *Conn) dispatch(f frame) error {
	switch f.kind {
	case frameResult:
		c.answered(f.id, f.body, nil)
	case frameError:
		e := new(Error)
		if json.Unmarshal(f.body, e) != nil {
			err := errors.New("the error of an answer cannot be read")
			c.answered(f.id, nil, &Error{Kind: KindFault, Executed: bridge.ExecutedUnknown, Message: err.Error()})
			return err
		}
		c.answered(f.id, nil, e)
	case frameRequest:
		if isEvent(f.method) {
			return c.event(f)
		}
		return c.asked(f)
	case frameNotice:
		switch f.method {
		case MethodFault:
			c.log.Warn("the other side could not read a line of ours", "params", clip(string(f.body), 256))
		case MethodTools, MethodState, MethodBye, MethodLate, MethodAck, MethodYou:
			c.handler.Notice(f.method, f.body)
		default:
			c.unknown(f.method)
		}
	}
	return nil
}

// event routes an event to the request that it is about: cancel concerns one
// of theirs, the others one of ours.
func (c *Conn) event(f frame) error {
	if f.method != MethodCancel {
		c.mu.Lock()
		p := c.pending[f.id]
		c.mu.Unlock()
		if p != nil && p.events != nil {
			p.events(f.method, f.body)
		}
		return nil
	}
	var params Cancel
	if len(f.body) > 0 {
		if err := json.Unmarshal(f.body, &params); err != nil {
			return errors.New("the params of cancel cannot be read")
		}
	}
	c.mu.Lock()
	r := c.incoming[f.id]
	c.mu.Unlock()
	if r != nil {
		r.cancel(&CancelError{Reason: params.Reason})
	}
	return nil
}

// fault counts an unreadable line and tells the other side. It reports
// whether the link may go on.
func (c *Conn) fault(err error) bool {
	c.faults++
	c.log.Warn("unreadable line on the link", "err", err, "count", c.faults)
	message := err.Error()
	c.work.Go(func() { _ = c.Notify(MethodFault, Fault{Message: message}) }) // best effort
	return c.faults < maxFaults
}

func (c *Conn) unknown(method string) {
	if c.logged[method] || len(c.logged) >= maxLogged {
		return
	}
	c.logged[method] = true
	c.log.Info("unknown method on the link", "method", method)
}

// ping asks for signs of life until ctx ends. It sends none while one is
// unanswered, so that a frozen side does not find its socket full of them.
func (c *Conn) ping(ctx context.Context) {
	tick := time.NewTicker(PingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !c.pinging.CompareAndSwap(false, true) {
			continue
		}
		_, err := c.Start(MethodPing, nil, nil, func(json.RawMessage, error) { c.pinging.Store(false) })
		if err != nil {
			return
		}
	}
}
