package stdiohost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// Waits between two starts of the child.
const (
	defaultFirstWait = 500 * time.Millisecond
	defaultMaxWait   = 30 * time.Second
	// steadyAfter is how long a child must have lived for the waits to begin
	// anew.
	steadyAfter = 30 * time.Second
)

// Config describes what to attach.
type Config struct {
	Name    string   // wanted name; empty: the directory's
	Command []string // program and arguments
	Dial    func(context.Context) (net.Conn, error)
	Version string    // of this program
	Stderr  io.Writer // gets the child's stderr, line by line; nil: nowhere
	Log     *slog.Logger

	// FirstWait and MaxWait bound the waits between two starts; zero means
	// 0.5 s and 30 s.
	FirstWait, MaxWait time.Duration
	Link               hostlink.Backoff // between two attempts to attach
	OnWelcome          func(hostlink.Welcome)
}

// Program is an attached program.
type Program struct {
	cfg  Config
	log  *slog.Logger
	host *hostlink.Host
	out  *escaper

	mu      sync.Mutex
	session *session // nil while the child is away
}

// New prepares a program; Run starts it.
func New(cfg Config) *Program {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Stderr == nil {
		cfg.Stderr = io.Discard
	}
	if cfg.FirstWait <= 0 {
		cfg.FirstWait = defaultFirstWait
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = defaultMaxWait
	}
	p := &Program{cfg: cfg, log: cfg.Log, out: &escaper{w: cfg.Stderr}}
	cwd, _ := os.Getwd() // without it the bridge finds a name
	p.host = hostlink.NewHost(hostlink.HostConfig{
		Dial: cfg.Dial,
		Hello: hostlink.Hello{Kind: "stdio", Version: cfg.Version, Extension: cfg.Version, PID: os.Getpid(), CWD: cwd,
			Name: cfg.Name, State: hostlink.StateNotReady, Gate: false, Capabilities: []string{"progress", "images"}},
		Run:            p.call,
		LatestProgress: true, // each of MCP's messages stands alone
		OnWelcome:      cfg.OnWelcome,
		Backoff:        cfg.Link,
		Log:            cfg.Log,
	})
	return p
}

// Run starts the program, attaches it once it has answered, and keeps it
// running and attached until ctx ends; then it says bye, stops the child and
// returns nil. It fails when the first child cannot be started, or with a
// *NotMCPError when it does not answer.
func (p *Program) Run(ctx context.Context) error {
	if len(p.cfg.Command) == 0 {
		return errors.New("no program to attach")
	}
	hostCtx, detach := context.WithCancel(ctx)
	defer detach()
	childCtx, stopChild := context.WithCancel(context.WithoutCancel(ctx)) // the child outlives the link's bye
	defer stopChild()
	supervised, answered := make(chan error, 1), make(chan struct{})
	go func() {
		supervised <- p.supervise(childCtx, sync.OnceFunc(func() { close(answered) }))
		detach()
	}()
	select {
	case <-answered:
	case err := <-supervised:
		return err
	case <-ctx.Done():
		stopChild()
		return <-supervised
	}
	err := p.host.Run(hostCtx)
	stopChild()
	if e := <-supervised; e != nil {
		return e
	}
	return err
}

// supervise keeps a child running until ctx ends, and calls answered whenever
// one has.
func (p *Program) supervise(ctx context.Context, answered func()) error {
	wait := p.cfg.FirstWait
	for ever := false; ; {
		began := time.Now()
		err := p.serveChild(ctx, func() { ever = true; answered() })
		if ctx.Err() != nil {
			return nil
		}
		var start *startError
		switch {
		case ever:
		case errors.As(err, &start):
			return err
		default:
			return &NotMCPError{Program: p.cfg.Command[0], Err: err}
		}
		if time.Since(began) >= steadyAfter {
			wait = p.cfg.FirstWait
		}
		p.log.Warn("the program ended; starting it again", "err", err, "wait", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, p.cfg.MaxWait)
	}
}

// serveChild runs one child to its end.
func (p *Program) serveChild(ctx context.Context, answered func()) error {
	c, err := startChild(p.cfg.Command, p.out)
	if err != nil {
		return err
	}
	s := newSession(c, p.log, p.out)
	err = s.run(ctx, answered, func(tools []bridge.Tool) {
		p.host.SetTools(tools)
		p.set(s)
	})
	p.set(nil)
	return err
}

// set publishes the session that takes calls, or that there is none.
func (p *Program) set(s *session) {
	p.mu.Lock()
	p.session = s
	p.mu.Unlock()
	state := hostlink.StateIdle
	if s == nil {
		state = hostlink.StateNotReady
	}
	p.host.SetState(state, hostlink.Session{})
}

// call runs one call in the child.
func (p *Program) call(ctx context.Context, call hostlink.CallParams, emit hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	if s == nil {
		return nil, &hostlink.Error{Kind: hostlink.KindNotReady, Executed: bridge.ExecutedNo, Message: "the program is not running"}
	}
	return s.callTool(ctx, call.Tool, call.Args, emit.Progress)
}

// NotMCPError is a program whose first child did not answer as MCP wants it.
type NotMCPError struct {
	Program string
	Err     error
}

func (e *NotMCPError) Error() string {
	return fmt.Sprintf("%s does not speak MCP over stdio: %v", filepath.Base(e.Program), e.Err)
}
func (e *NotMCPError) Unwrap() error { return e.Err }

// startError is a child that could not be started at all.
type startError struct {
	program string
	err     error
}

func (e *startError) Error() string { return fmt.Sprintf("start %s: %v", e.program, e.err) }
func (e *startError) Unwrap() error { return e.err }

// Welcome is what a daemon says to a program that it has attached.
type Welcome = hostlink.Welcome
