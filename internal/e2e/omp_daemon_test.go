package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// linkPatience is how long a host may take for anything; omp starts in seconds, and slower beside other tests.
const linkPatience = 60 * time.Second

// linkDaemon is the daemon's end of the host link and nothing else, so that tests see and send what they like.
type linkDaemon struct {
	path  string
	hosts chan *linkedHost
	// welcome changes the answer to a hello; calls to resume are adopted there.
	welcome func(*linkedHost, *hostlink.Welcome)
	// refuse is the answer to every hello, when set.
	refuse *hostlink.Error
	hellos atomic.Int32
	// verbs answers /a2a.
	verbs func(hostlink.Request) (any, *hostlink.Error)

	ln  net.Listener
	end context.CancelFunc
	wg  sync.WaitGroup
}

func newLinkDaemon(t *testing.T) *linkDaemon {
	t.Helper()
	return &linkDaemon{path: filepath.Join(bridgetest.SockDir(t), "host.sock"), hosts: make(chan *linkedHost, 16)}
}

// start listens until the test ends or stop.
func (d *linkDaemon) start(t *testing.T) *linkDaemon {
	t.Helper()
	ln, err := net.Listen("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	d.ln = ln
	ctx, cancel := context.WithCancel(context.Background())
	d.end = cancel
	d.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(ctx, c) })
		}
	})
	t.Cleanup(d.stop)
	return d
}

// stop ends every link, as a daemon does that stops. It may start again.
func (d *linkDaemon) stop() {
	_ = d.ln.Close()
	d.end()
	d.wg.Wait()
}

func (d *linkDaemon) serve(ctx context.Context, c net.Conn) {
	h := &linkedHost{daemon: d, ended: make(chan struct{}), changed: make(chan struct{})}
	h.Conn = hostlink.NewConn(&tap{Conn: c, host: h}, h, nil)
	_ = h.Run(ctx) // how a link ends is the tests' business
	close(h.ended)
}

// host returns the next host that said hello and got its welcome.
func (d *linkDaemon) host(t *testing.T) *linkedHost {
	t.Helper()
	select {
	case h := <-d.hosts:
		return h
	case <-time.After(linkPatience):
		t.Fatal("no host attached")
		return nil
	}
}

// linkedHost is one link of a host.
type linkedHost struct {
	*hostlink.Conn
	daemon *linkDaemon
	hello  hostlink.Hello
	ended  chan struct{}

	mu      sync.Mutex
	changed chan struct{}
	said    []string // raw bytes from the host
	heard   notices
}

// notices are what a host has told so far.
type notices struct {
	tools  []hostlink.Tools
	states []hostlink.StateNotice
	byes   []hostlink.Bye
	lates  []hostlink.Late
}

// state is the last one told, "" before the first.
func (n notices) state() string {
	if len(n.states) == 0 {
		return ""
	}
	return n.states[len(n.states)-1].State
}

// told returns a copy.
func (h *linkedHost) told() notices {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.heard
	return notices{slices.Clone(n.tools), slices.Clone(n.states), slices.Clone(n.byes), slices.Clone(n.lates)}
}

// tap keeps what the host sends.
type tap struct {
	net.Conn
	host *linkedHost
}

func (c *tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.host.mu.Lock()
	c.host.said = append(c.host.said, string(p[:n]))
	c.host.mu.Unlock()
	return n, err
}

// Request answers the host.
func (h *linkedHost) Request(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
	switch r.Method {
	case hostlink.MethodHello:
		h.daemon.hellos.Add(1)
		if h.daemon.refuse != nil {
			return nil, h.daemon.refuse
		}
		if err := json.Unmarshal(r.Params, &h.hello); err != nil {
			return nil, &hostlink.Error{Kind: hostlink.KindBadHello, Message: err.Error(), Executed: bridge.ExecutedNo}
		}
		w := hostlink.Welcome{
			Daemon: "1.0.0", Protocol: hostlink.Protocol, Address: "http://127.0.0.1:7717/mcp", Name: filepath.Base(h.hello.CWD),
			Main: true, Catalogue: hostlink.CatalogueSend, Resumed: []hostlink.Resumed{}, Names: []string{},
		}
		if h.daemon.welcome != nil {
			h.daemon.welcome(h, &w)
		}
		raw, err := json.Marshal(w)
		if err == nil {
			err = r.Reply(raw)
		}
		if err == nil {
			h.daemon.hosts <- h
		}
		return raw, nil
	case hostlink.MethodRequest:
		var q hostlink.Request
		if err := json.Unmarshal(r.Params, &q); err != nil || h.daemon.verbs == nil {
			return nil, &hostlink.Error{Kind: hostlink.KindBadRequest, Message: "not now"}
		}
		answer, e := h.daemon.verbs(q)
		if e != nil {
			return nil, e
		}
		raw, err := json.Marshal(answer)
		if err != nil {
			return nil, &hostlink.Error{Kind: hostlink.KindFault, Message: err.Error()}
		}
		return raw, nil
	}
	return nil, &hostlink.Error{Kind: hostlink.KindUnknownMethod, Message: r.Method}
}

// Notice keeps what the host tells.
func (h *linkedHost) Notice(method string, params json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch method {
	case hostlink.MethodTools:
		h.heard.tools = keep(h.heard.tools, params)
	case hostlink.MethodState:
		h.heard.states = keep(h.heard.states, params)
	case hostlink.MethodBye:
		h.heard.byes = keep(h.heard.byes, params)
	case hostlink.MethodLate:
		h.heard.lates = keep(h.heard.lates, params)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// keep appends a notice; one that cannot be read leaves its zero value, which no test expects.
func keep[T any](list []T, params json.RawMessage) []T {
	var v T
	_ = json.Unmarshal(params, &v)
	return append(list, v)
}

// await waits until what the host has told fits.
func (h *linkedHost) await(t *testing.T, what string, ok func(notices) bool) notices {
	t.Helper()
	timeout := time.After(linkPatience)
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		if n := h.told(); ok(n) {
			return n
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("the host did not come to %s", what)
		}
	}
}

// catalogue waits for the first list of tools.
func (h *linkedHost) catalogue(t *testing.T) map[string]bridge.Tool {
	t.Helper()
	n := h.await(t, "its catalogue", func(n notices) bool { return len(n.tools) > 0 })
	all := map[string]bridge.Tool{}
	for _, tool := range n.tools[len(n.tools)-1].Tools {
		all[tool.Name] = tool
	}
	return all
}

// sent is everything that the host has sent, as text.
func (h *linkedHost) sent() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.said, "")
}

// linkedCall is a call as the daemon sees it.
type linkedCall struct {
	id     int64
	host   *linkedHost
	callID bridge.CallID
	done   chan struct{}

	mu       sync.Mutex
	heard    chan struct{}
	events   []string // "accepted", "progress TEXT", "approval STATE"
	result   json.RawMessage
	err      error
	answered int
}

type callOption func(*hostlink.CallParams)

func approvalLimit(d time.Duration) callOption {
	return func(p *hostlink.CallParams) { p.ApprovalMs = d.Milliseconds() }
}

// call hands a call over.
func (h *linkedHost) call(t *testing.T, tool string, args any, options ...callOption) *linkedCall {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	p := hostlink.CallParams{
		CallID: bridge.NewCallID(), Ref: json.RawMessage(`{"front":"mcp","rpc":12345678901234567890,"token":"t1","peer":"laptop"}`),
		Tool: tool, Args: raw, Peer: hostlink.PeerInfo{Name: "laptop", Client: "omp"}, ApprovalMs: linkPatience.Milliseconds(),
	}
	for _, option := range options {
		option(&p)
	}
	c := newLinkedCall(h, p.CallID)
	c.id, err = h.Start(hostlink.MethodCall, p, c.event, c.end)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newLinkedCall(h *linkedHost, id bridge.CallID) *linkedCall {
	return &linkedCall{host: h, callID: id, done: make(chan struct{}), heard: make(chan struct{})}
}

func (c *linkedCall) event(method string, params json.RawMessage) {
	var p struct{ Text, State string }
	_ = json.Unmarshal(params, &p) // an event without these says nothing
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, strings.TrimRight(method+" "+p.Text+p.State, " \n"))
	close(c.heard)
	c.heard = make(chan struct{})
}

func (c *linkedCall) end(result json.RawMessage, err error) {
	c.mu.Lock()
	c.result, c.err = result, err
	c.answered++
	c.mu.Unlock()
	close(c.done) // twice would be a second answer, and panic
}

// heardEvent waits for an event.
func (c *linkedCall) heardEvent(t *testing.T, event string) {
	t.Helper()
	timeout := time.After(linkPatience)
	for {
		c.mu.Lock()
		events, heard := fmt.Sprint(c.events), c.heard
		c.mu.Unlock()
		if strings.Contains(events, event) {
			return
		}
		select {
		case <-heard:
		case <-c.done:
			t.Fatalf("the call ended without %q: %s", event, events)
		case <-timeout:
			t.Fatalf("no event %q: %s", event, events)
		}
	}
}

func (c *linkedCall) wait(t *testing.T) {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(linkPatience):
		t.Fatalf("the call has no answer; events: %q", c.events)
	}
}

// toolResult is a CallToolResult.
type toolResult struct {
	Content []struct{ Type, Text, Data, MimeType string }
	IsError bool
}

func (r toolResult) text() string {
	var b strings.Builder
	for _, block := range r.Content {
		b.WriteString(block.Text)
	}
	return b.String()
}

// ok waits for a result and acknowledges it.
func (c *linkedCall) ok(t *testing.T) toolResult {
	t.Helper()
	c.wait(t)
	if c.err != nil {
		t.Fatalf("the call failed: %v", c.err)
	}
	var r toolResult
	if err := json.Unmarshal(c.result, &r); err != nil {
		t.Fatalf("result %.300s: %v", c.result, err)
	}
	if err := c.host.Notify(hostlink.MethodAck, hostlink.Ack{CallID: c.callID}); err != nil && !errors.Is(err, hostlink.ErrLinkLost) {
		t.Fatal(err)
	}
	return r
}

// refused waits for an error of this kind and returns its message.
func (c *linkedCall) refused(t *testing.T, kind string, executed bridge.Executed) string {
	t.Helper()
	c.wait(t)
	var e *hostlink.Error
	if !errors.As(c.err, &e) {
		t.Fatalf("got %v and %.300s, want the error %s", c.err, c.result, kind)
	}
	if e.Kind != kind || e.Executed != executed {
		t.Fatalf("got %s, executed %q; want %s, executed %q", e, e.Executed, kind, executed)
	}
	return e.Message
}

func (c *linkedCall) cancel(t *testing.T) {
	t.Helper()
	if err := c.host.Event(c.id, hostlink.MethodCancel, hostlink.Cancel{Reason: "the caller cancelled"}); err != nil {
		t.Fatal(err)
	}
}

// attachOMP starts a daemon and an omp, and waits until it is attached.
func attachOMP(t *testing.T, o bridgetest.OMPOptions) (*bridgetest.OMP, *linkedHost, *linkDaemon) {
	t.Helper()
	d := newLinkDaemon(t).start(t)
	o.HostSocket = d.path
	omp := bridgetest.StartOMP(t, o)
	return omp, d.host(t), d
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
