package bridgetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// ScriptedTool is a tool whose behaviour a test writes.
type ScriptedTool struct {
	Name       string
	Tier       bridge.Tier
	Source     string
	Definition json.RawMessage // empty: a description and a schema that takes anything
	// Run answers a call; nil answers with the arguments as text.
	Run func(ctx context.Context, call hostlink.CallParams, emit hostlink.Emitter) (json.RawMessage, *hostlink.Error)
}

// HostOptions describe a scripted host.
type HostOptions struct {
	Name     string // wanted name; empty: "app"
	Instance string // empty: a fresh one, as for a new process
	Tools    []ScriptedTool
	Hello    hostlink.Hello // for the rest: tty, tmux, kind and so on
	Dial     func(context.Context) (net.Conn, error)
	Log      *slog.Logger
}

// ScriptedHost is a host without a model or a screen, at the real link.
type ScriptedHost struct {
	*hostlink.Host
	Welcomes chan hostlink.Welcome // one for each time it attached

	mu     sync.Mutex
	runs   map[string]int
	calls  []hostlink.CallParams
	tools  map[string]ScriptedTool
	cancel context.CancelFunc
	done   chan error
}

// AttachScripted attaches a host and waits until the daemon has its tools. It
// stays until the test ends or Detach.
func (b *Bridge) AttachScripted(t testing.TB, o HostOptions) *ScriptedHost {
	t.Helper()
	if o.Dial == nil {
		o.Dial = b.DialHost
	}
	h := StartScripted(t, o)
	w := h.WaitWelcome(t)
	Eventually(t, "the daemon lists the host "+w.Name, func() bool {
		for _, s := range b.Status(t).Hosts {
			if s.Name == w.Name && s.State != "not_ready" && s.Tools == len(o.Tools) {
				return true
			}
		}
		return false
	})
	return h
}

// StartScripted runs a host that attaches when it can.
func StartScripted(t testing.TB, o HostOptions) *ScriptedHost {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &ScriptedHost{Welcomes: make(chan hostlink.Welcome, 16), runs: map[string]int{}, tools: map[string]ScriptedTool{}, done: make(chan error, 1)}
	hello := o.Hello
	hello.Instance = o.Instance
	if hello.Kind == "" {
		hello.Kind, hello.Version, hello.Gate = "scripted", "1", true
	}
	if hello.PID == 0 {
		hello.PID = os.Getpid()
	}
	if hello.CWD == "" {
		hello.CWD = "/work"
	}
	if hello.Name = o.Name; hello.Name == "" {
		hello.Name = "app"
	}
	h.Host = hostlink.NewHost(hostlink.HostConfig{
		Dial: o.Dial, Hello: hello, Run: h.run, Log: o.Log,
		Backoff: hostlink.Backoff{First: 10 * time.Millisecond, Max: 50 * time.Millisecond},
		OnWelcome: func(w hostlink.Welcome) {
			select {
			case h.Welcomes <- w:
			default: // nobody counts that many
			}
		},
	})
	h.SetScript(o.Tools)
	h.SetState(hostlink.StateIdle, hostlink.Session{ID: "s1", Name: "script"})
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() { h.done <- h.Run(ctx) }()
	t.Cleanup(func() { h.Detach(t) })
	return h
}

// SetScript replaces the tools and announces them.
func (h *ScriptedHost) SetScript(tools []ScriptedTool) {
	h.mu.Lock()
	h.tools = map[string]ScriptedTool{}
	list := make([]bridge.Tool, 0, len(tools))
	for _, s := range tools {
		h.tools[s.Name] = s
		d := s.Definition
		if d == nil {
			d = json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"scripted","inputSchema":{"type":"object"}}`, s.Name))
		}
		list = append(list, bridge.Tool{Name: s.Name, Tier: s.Tier, Source: s.Source, Definition: d})
	}
	h.mu.Unlock()
	h.SetTools(list)
}

func (h *ScriptedHost) run(ctx context.Context, call hostlink.CallParams, emit hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	h.mu.Lock()
	tool, ok := h.tools[call.Tool]
	h.runs[call.Tool]++
	h.calls = append(h.calls, call)
	h.mu.Unlock()
	switch {
	case !ok:
		return nil, &hostlink.Error{Kind: hostlink.KindUnknownTool, Message: "no such tool", Executed: bridge.ExecutedNo}
	case tool.Run == nil:
		return TextResult(string(call.Args)), nil
	}
	return tool.Run(ctx, call, emit)
}

// Runs is how often a tool was run.
func (h *ScriptedHost) Runs(tool string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[tool]
}

// Calls are all calls that arrived, in order.
func (h *ScriptedHost) Calls() []hostlink.CallParams {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]hostlink.CallParams(nil), h.calls...)
}

// WaitWelcome waits until the host is attached (again).
func (h *ScriptedHost) WaitWelcome(t testing.TB) hostlink.Welcome {
	t.Helper()
	select {
	case w := <-h.Welcomes:
		return w
	case <-time.After(startTime):
		t.Fatal("the host was not attached in time")
		return hostlink.Welcome{}
	}
}

// Detach says bye and ends the host.
func (h *ScriptedHost) Detach(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	cancel := h.cancel
	h.cancel = nil
	h.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	select {
	case err := <-h.done:
		if err != nil {
			t.Errorf("the host ended with %v", err)
		}
	case <-time.After(stopTime):
		t.Errorf("the host did not end in %s", stopTime)
	}
}

// TextResult is a CallToolResult of one text.
func TextResult(text string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}})
	if err != nil {
		panic(err) // a string always encodes
	}
	return raw
}

// Block is a tool body that runs until release is closed or the call is
// cancelled, and then answers with the text.
func Block(release <-chan struct{}, text string) func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	return func(ctx context.Context, _ hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		select {
		case <-release:
			return TextResult(text), nil
		case <-ctx.Done():
			return nil, &hostlink.Error{Kind: hostlink.KindCancelled, Message: "cancelled", Executed: bridge.ExecutedUnknown}
		}
	}
}
