package hostlink

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// writeLimit is how long one frame may take to leave. A side that reads
	// nothing for that long is gone: half a frame cannot be taken back.
	writeLimit = 30 * time.Second
	// spliceFrom is the payload size from which copying costs more than a
	// vectored write.
	spliceFrom = 32 << 10
	// keptFrame is the biggest frame memory that a writer keeps.
	keptFrame = 64 << 10
)

// writer puts whole frames on the link, one at a time.
type writer struct {
	mu    sync.Mutex
	conn  net.Conn
	limit time.Duration
	buf   []byte
	err   error // the first failure; the link is closed and nothing follows
}

// frame writes one frame whose payload is JSON without newlines. It refuses
// one over MaxFrame with an *Error and leaves the link as it was.
func (w *writer) frame(id int64, method, key string, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	b := appendHead(w.buf[:0], id, method, key)
	if size := len(b) + len(payload) + 1; size > MaxFrame {
		return &Error{Kind: KindTooLarge, Executed: "no",
			Message: fmt.Sprintf("the message has %d bytes; the link carries at most %d", size, MaxFrame)}
	}
	// The deadline stands between frames as well, where nothing waits for it.
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.limit)); err != nil {
		return w.fail(err)
	}
	var err error
	if len(payload) < spliceFrom {
		b = append(b, payload...)
		b = append(b, '}', '\n')
		_, err = w.conn.Write(b)
	} else {
		parts := net.Buffers{b, payload, frameEnd}
		_, err = parts.WriteTo(w.conn)
	}
	if cap(b) <= keptFrame {
		w.buf = b[:0]
	}
	if err != nil {
		return w.fail(err)
	}
	return nil
}

var frameEnd = []byte("}\n")

// fail closes the link: a frame may have left in part.
func (w *writer) fail(err error) error {
	w.err = fmt.Errorf("%w: %w", ErrLinkLost, err)
	_ = w.conn.Close() // the write error is the one that says why
	return w.err
}

// close makes every later write fail.
func (w *writer) close() {
	err := w.conn.Close() // first, so that a writer that waits gives the lock up
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = ErrLinkLost
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		w.err = fmt.Errorf("%w: %w", ErrLinkLost, err)
	}
}
