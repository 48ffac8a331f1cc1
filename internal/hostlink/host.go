package hostlink

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Back-off between two attempts to attach.
const (
	defaultFirstWait   = 100 * time.Millisecond
	defaultMaxWait     = 5 * time.Second
	defaultRefusedWait = time.Minute // another protocol version: only an update helps
)

// Backoff says how long to wait between attempts to attach; zero fields take
// the values of PROTOCOL.md.
type Backoff struct {
	First, Max time.Duration
	Refused    time.Duration // after the error kind protocol
}

// HostConfig describes a host.
type HostConfig struct {
	Dial func(context.Context) (net.Conn, error)
	// Hello says who the host is. Protocol, Instance (when empty), State,
	// Session, Catalogue, Running and Unacked are filled in.
	Hello Hello
	// Run runs one tool of the catalogue. ctx ends when the call is cancelled
	// or its approval times out, not when the link is lost. A result must be a
	// JSON object.
	Run func(ctx context.Context, call CallParams, emit Emitter) (json.RawMessage, *Error)
	// LatestProgress drops the older text when progress comes faster than the
	// link carries it, instead of joining the texts.
	LatestProgress bool

	// OnWelcome and OnYou (both may be nil) are called on the read loop and
	// must not block.
	OnWelcome func(Welcome)
	OnYou     func(You)

	Backoff Backoff
	Log     *slog.Logger
}

// Emitter tells the caller how a running tool gets on. Its methods may be
// called by several goroutines, and after the call's end, when they do nothing.
type Emitter interface {
	// Progress passes on new output.
	Progress(text string)
	// Approval tells that the owner is being asked (ApprovalPending) or has
	// answered. Pending starts the clock of the call's approval limit.
	Approval(state string)
}

// Host is the host's end of the link: it attaches, attaches again when the
// link ends, runs each call once, and keeps the answers until they are acked.
type Host struct {
	cfg   HostConfig
	log   *slog.Logger
	calls *calls
	dirty chan struct{} // the catalogue or the state has changed

	mu       sync.Mutex
	tools    map[string]bool
	notice   Tools // Hash is empty until SetTools
	state    StateNotice
	conn     *Conn // nil unless attached
	attached chan struct{}
	lates    []Late
}

// NewHost makes a host that is idle and has no tools yet.
func NewHost(cfg HostConfig) *Host {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Backoff.First = orDefault(cfg.Backoff.First, defaultFirstWait)
	cfg.Backoff.Max = orDefault(cfg.Backoff.Max, defaultMaxWait)
	cfg.Backoff.Refused = orDefault(cfg.Backoff.Refused, defaultRefusedWait)
	if cfg.Hello.Instance == "" {
		cfg.Hello.Instance = rand.Text()
	}
	state := StateNotice{State: cfg.Hello.State, Session: cfg.Hello.Session}
	if state.State == "" {
		state.State = StateIdle
	}
	return &Host{
		cfg: cfg, log: cfg.Log, calls: newCalls(), state: state,
		dirty: make(chan struct{}, 1), attached: make(chan struct{}),
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// SetTools replaces the catalogue and announces it.
func (h *Host) SetTools(tools []bridge.Tool) {
	names := make(map[string]bool, len(tools))
	for _, t := range tools {
		names[t.Name] = true
	}
	h.mu.Lock()
	h.tools, h.notice = names, Tools{Hash: CatalogueHash(tools), Tools: tools}
	h.mu.Unlock()
	h.changed()
}

// SetState replaces the state and the session and announces them.
func (h *Host) SetState(state string, s Session) {
	h.mu.Lock()
	h.state = StateNotice{State: state, Session: s}
	h.mu.Unlock()
	h.changed()
}

func (h *Host) changed() {
	select {
	case h.dirty <- struct{}{}:
	default:
	}
}

// Request sends one of the owner's verbs to the daemon. Without a link it
// waits for one until ctx ends.
func (h *Host) Request(ctx context.Context, r Request) (json.RawMessage, error) {
	for {
		h.mu.Lock()
		conn, attached := h.conn, h.attached
		h.mu.Unlock()
		if conn != nil {
			return conn.Do(ctx, MethodRequest, r, nil)
		}
		select {
		case <-attached:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Drop cuts the link, if there is one, as a lost one would be; Run attaches
// again. It is for tests of what outlives a link.
func (h *Host) Drop() {
	h.mu.Lock()
	conn := h.conn
	h.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// Run keeps the host attached until ctx ends; then it says bye, cancels the
// calls that still run and returns nil once they have ended.
func (h *Host) Run(ctx context.Context) error {
	defer h.calls.stop()
	wait := h.cfg.Backoff.First
	said := ""
	for {
		welcomed, err := h.attach(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if welcomed {
			wait, said = h.cfg.Backoff.First, ""
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			h.log.Warn("not attached to the bridge", "err", err)
		}
		pause := wait - time.Duration(mathrand.Int64N(int64(wait)/2+1))
		var refused *Error
		if errors.As(err, &refused) && refused.Kind == KindProtocol {
			pause = h.cfg.Backoff.Refused
		}
		wait = min(2*wait, h.cfg.Backoff.Max)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		h.calls.sweep()
	}
}

// attach serves one link to its end. welcomed says that the daemon took us.
func (h *Host) attach(ctx context.Context) (welcomed bool, err error) {
	socket, err := h.cfg.Dial(ctx)
	if err != nil {
		return false, fmt.Errorf("reach the bridge: %w", err)
	}
	linkCtx := context.WithoutCancel(ctx) // the end of ctx sends a bye first
	conn := NewConn(socket, (*hostHandler)(h), h.log)
	ended := make(chan error, 1)
	welcome := make(chan error, 1)
	hello, told := h.hello()
	go func() { ended <- conn.Run(linkCtx) }()
	_, err = conn.Start(MethodHello, hello, nil, func(result json.RawMessage, err error) {
		welcome <- h.welcomed(conn, hello, &told, result, err)
	})
	if err == nil {
		select {
		case err = <-welcome:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(HelloLimit):
			err = errors.New("the bridge did not answer the hello")
		}
	}
	if err == nil {
		welcomed = true
		err = h.announce(ctx, conn, told, ended)
	}
	conn.Close()
	if lost := <-ended; err == nil {
		err = lost
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == conn { // also when the welcome came after ctx's end
		h.conn, h.attached = nil, make(chan struct{})
	}
	return welcomed, err
}
