package stdiohost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	// initLimit is how long a child may take to be ready: it may be fetched
	// and unpacked first.
	initLimit = 2 * time.Minute
	// listLimit bounds the listing of tools.
	listLimit = time.Minute
	// maxAnswers bounds the answers to the child that wait for it to read.
	maxAnswers = 16
)

// errChildLost is why a call has no answer.
var errChildLost = errors.New("the program ended")

// session is one MCP session with one child.
type session struct {
	child   *child
	log     *slog.Logger
	out     *escaper
	changed chan struct{} // the list of tools has changed
	answers chan struct{} // slots
	work    sync.WaitGroup

	mu     sync.Mutex
	lastID int64
	calls  map[int64]*pending
	over   bool
}

// pending is a request of ours to the child. Its answer comes exactly once.
type pending struct {
	progress func(text string)
	answer   chan answer // holds one
}

// answer is what came for a request: a result, the child's error, or err.
type answer struct {
	result  json.RawMessage
	failure *rpcError
	err     error
}

func newSession(c *child, log *slog.Logger, out *escaper) *session {
	return &session{child: c, log: log, out: out, changed: make(chan struct{}, 1),
		answers: make(chan struct{}, maxAnswers), calls: make(map[int64]*pending)}
}

// run initializes the child, says that it has answered, reports its tools now
// and on every change, and
// returns when the child has ended or ctx has, with the child stopped.
func (s *session) run(ctx context.Context, answered func(), tools func([]bridge.Tool)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.work.Go(func() {
		err := s.read()
		s.end()
		cancel(err)
	})
	err := s.initialize(ctx)
	if err == nil {
		answered()
	}
	for first := true; err == nil; first = false {
		if err = s.list(ctx, first, tools); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-s.changed:
		}
	}
	s.child.stop()
	s.work.Wait()
	if errors.Is(err, errChildLost) {
		err = s.child.err // it says more
	}
	return err
}

// read takes the child's lines until it ends.
func (s *session) read() error {
	for {
		line, owned, err := s.child.lines.Next()
		var long *hostlink.TooLongError
		switch {
		case errors.As(err, &long):
			if err := s.tooLong(long); err != nil {
				s.child.kill()
				return err
			}
			continue
		case err != nil:
			if !errors.Is(err, io.EOF) {
				s.log.Debug("read the program's output", "err", err)
			}
			// Its output is closed: it has ended, or cannot answer any more.
			select {
			case <-s.child.ended:
			case <-time.After(drainLimit):
				s.child.kill()
				<-s.child.ended
			}
			return s.child.err
		}
		if !owned {
			line = bytes.Clone(line)
		}
		s.line(line)
	}
}

// end fails every open request.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for id, p := range s.calls {
		delete(s.calls, id)
		p.answer <- answer{err: errChildLost}
	}
}

// tooLong ends the call whose answer was dropped. Without a hint which one it
// was, the child has to go: the call would wait for ever.
func (s *session) tooLong(e *hostlink.TooLongError) error {
	id, ok := idOf(e.Head, e.Tail)
	if !ok {
		return fmt.Errorf("the program sent something too large: %w", e)
	}
	s.log.Warn("the program's answer is too large", "err", e)
	s.answered(id, answer{err: e})
	return nil
}

// start registers a request and sends it. params is a JSON object.
func (s *session) start(method string, progress func(string), params func(id int64) []byte) (int64, *pending, error) {
	p := &pending{progress: progress, answer: make(chan answer, 1)}
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return 0, nil, errChildLost
	}
	s.lastID++
	id := s.lastID
	s.calls[id] = p
	s.mu.Unlock()
	body := params(id)
	line := make([]byte, 0, len(body)+len(method)+64)
	line = append(line, `{"jsonrpc":"2.0","id":`...)
	line = strconv.AppendInt(line, id, 10)
	line = append(line, `,"method":"`...)
	line = append(line, method...) // our constants only
	line = append(line, `","params":`...)
	line = append(line, body...)
	line = append(line, '}')
	if err := s.child.send(line); err != nil {
		s.forget(id)
		return 0, nil, err
	}
	return id, p, nil
}

func (s *session) forget(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, id)
}

// answered gives a request its answer; one to an unknown request is ignored.
func (s *session) answered(id int64, a answer) {
	s.mu.Lock()
	p := s.calls[id]
	delete(s.calls, id)
	s.mu.Unlock()
	if p != nil {
		p.answer <- a
	}
}

// ask sends a request and waits for its result.
func (s *session) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode the params of %s: %w", method, err)
	}
	id, p, err := s.start(method, nil, func(int64) []byte { return body })
	if err != nil {
		return nil, err
	}
	select {
	case a := <-p.answer:
		if a.failure != nil {
			return nil, a.failure
		}
		return a.result, a.err
	case <-ctx.Done():
		s.forget(id)
		return nil, context.Cause(ctx)
	}
}

// notify sends a notification.
func (s *session) notify(method string, params any) error {
	line, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{"2.0", method, params})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return s.child.send(line)
}

// reply answers a request of the child, off the read loop: the child may be
// writing and not reading.
func (s *session) reply(id json.RawMessage, key string, value any) {
	select {
	case s.answers <- struct{}{}:
	default:
		s.log.Warn("the program asks faster than it reads answers; one was left out")
		return
	}
	s.work.Go(func() {
		defer func() { <-s.answers }()
		body, err := json.Marshal(value)
		if err == nil {
			err = s.child.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%q:%s}`, id, key, body))
		}
		if err != nil {
			s.log.Debug("answer the program", "err", err)
		}
	})
}
