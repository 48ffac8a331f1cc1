package mcpfront

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// How answers are written.
const (
	// writeTimeout bounds each piece that is written: a client that takes
	// nothing for so long is gone. It bounds pieces, so that a large result may
	// take as long as a slow line needs.
	writeTimeout = 30 * time.Second
	// piece is how much is written under one deadline.
	piece = 256 << 10
	// joined is up to which size the parts of an answer are copied together:
	// one system call is cheaper than the copy.
	joined = 64 << 10
	// retryMillis is when a client whose stream ended should come back.
	retryMillis = "1000"
)

var (
	errClosed = errors.New("the answer is complete")

	comment   = []byte(":\n\n")
	eventHead = []byte("event: message\ndata: ")
	eventTail = []byte("\n\n")

	// Header values, shared by all answers.
	mediaJSON = []string{"application/json"}
	mediaSSE  = []string{"text/event-stream"}
	noCache   = []string{"no-cache"}
	noBuffer  = []string{"no"}
)

// answer writes the response to one request: a JSON document, or a stream of
// events. All methods may be called from any goroutine; those that write hold
// mu while they do, so that pieces never mix and nothing follows the end.
type answer struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	mu     sync.Mutex
	stream bool  // the headers of an event stream are out
	closed bool  // nothing more is written
	err    error // the first failed write; nothing is written after it
}

func newAnswer(w http.ResponseWriter) *answer {
	return &answer{w: w, rc: http.NewResponseController(w)}
}

// comment writes a comment, which keeps the connection alive.
func (a *answer) comment() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.put(comment)
}

// prime writes an event that has an id and no content: from here on the client
// can come back for the rest.
func (a *answer) prime(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.put([]byte("id: " + id + "\nretry: " + retryMillis + "\ndata: \n\n"))
}

// event writes one message with an id, or without when it is empty.
func (a *answer) event(id string, message []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != "" {
		return a.put([]byte("id: "+id+"\n"), eventHead, message, eventTail)
	}
	return a.put(eventHead, message, eventTail)
}

// put writes to the stream, and begins it if it is not begun. mu is held.
func (a *answer) put(parts ...[]byte) error {
	if a.closed {
		return errClosed
	}
	if a.err != nil {
		return a.err
	}
	a.begin()
	a.err = send(a.w, a.rc, parts...)
	return a.err
}

// begin sends the headers of a stream with the next write. mu is held.
func (a *answer) begin() {
	if a.stream {
		return
	}
	a.stream = true
	h := a.w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = mediaSSE, noCache, noBuffer
	a.w.WriteHeader(http.StatusOK)
}

// close ends the answer: when it returns nothing is being written any more.
func (a *answer) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.closed = true
		if a.stream {
			_ = a.rc.SetWriteDeadline(time.Time{})
		}
	}
}

// writeJSON answers with one JSON document given in parts.
func writeJSON(w http.ResponseWriter, status int, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	h := w.Header()
	h["Content-Type"] = mediaJSON
	h["Content-Length"] = []string{strconv.Itoa(size)}
	w.WriteHeader(status)
	rc := http.NewResponseController(w)
	err := send(w, rc, parts...)
	// The connection lives on, so the deadline must not.
	_ = rc.SetWriteDeadline(time.Time{})
	return err
}

// send writes parts and flushes, each piece under its own deadline. Writers
// without deadlines do without.
func send(w http.ResponseWriter, rc *http.ResponseController, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size <= joined && len(parts) > 1 {
		parts = [][]byte{bytes.Join(parts, nil)}
	}
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), piece)
			_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := w.Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
		}
	}
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
