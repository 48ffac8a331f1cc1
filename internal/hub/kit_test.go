package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a2a-bridge/a2a-bridge/internal/audit"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a hub over a real ledger, with hosts on pipes. It can be stopped,
// crashed and started again over the same directory.
type rig struct {
	t    *testing.T
	dir  string
	cfg  hub.Config
	work sync.WaitGroup

	mu     sync.Mutex
	hub    *hub.Hub // nil while it is down
	ledger *audit.Ledger
	end    context.CancelFunc // of Run, links and calls
	ctx    context.Context
}

func newRig(t *testing.T, change ...func(*hub.Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), cfg: hub.Config{Settings: hub.Defaults(), Version: "test"}}
	for _, c := range change {
		c(&r.cfg)
	}
	r.start()
	t.Cleanup(r.close)
	return r
}

func (r *rig) start() {
	r.t.Helper()
	ledger, err := audit.Open(audit.Config{Dir: r.dir, MaxBytes: 16 << 20, Keep: 4})
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := r.cfg
	cfg.StateDir = r.dir
	if cfg.Ledger == nil {
		cfg.Ledger = ledger
	}
	h, err := hub.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	r.mu.Lock()
	r.hub, r.ledger, r.ctx, r.end = h, ledger, ctx, end
	r.mu.Unlock()
	r.work.Go(func() { _ = h.Run(ctx) })
}

// stop ends the hub as the daemon does.
func (r *rig) stop() {
	r.mu.Lock()
	h, ledger, end := r.hub, r.ledger, r.end
	r.hub = nil
	r.mu.Unlock()
	if h == nil {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	h.Stop(ctx)
	end()
	_ = ledger.Close()
}

// crash cuts everything off where it stands; nothing more reaches the ledger.
func (r *rig) crash() {
	r.mu.Lock()
	ledger, end := r.ledger, r.end
	r.hub = nil
	r.mu.Unlock()
	_ = ledger.Close()
	end()
}

func (r *rig) close() {
	r.stop()
	r.work.Wait()
}

func (r *rig) dial(context.Context) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hub == nil {
		return nil, errors.New("the daemon is down")
	}
	h, ctx := r.hub, r.ctx
	ours, theirs := net.Pipe()
	r.work.Go(func() { _ = h.Attach(ctx, theirs) })
	return ours, nil
}

// peer is who calls in most tests.
var peer = bridge.Peer{Token: "tok-1", Name: "laptop", Role: bridge.RolePeer, Wait: 25 * time.Second}

// request makes a call of a tool.
func request(tool string, change ...func(*bridge.Call)) bridge.Call {
	c := bridge.Call{
		ID: bridge.NewCallID(), Tool: tool, Args: json.RawMessage(`{}`), Peer: peer,
		Client: bridge.Client{Name: "omp"},
		Ref:    bridge.Ref{Front: "mcp", Session: "s1", RPC: json.RawMessage(`1`), Token: peer.Token, Peer: peer.Name},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// watch is a Watcher that keeps what it hears.
type watch struct {
	handOver func() error

	mu     sync.Mutex
	handed int
	events []bridge.Event
}

func (w *watch) HandOver() error {
	w.mu.Lock()
	w.handed++
	w.mu.Unlock()
	if w.handOver != nil {
		return w.handOver()
	}
	return nil
}

func (w *watch) Event(e bridge.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *watch) heard() []bridge.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]bridge.Event(nil), w.events...)
}

// reply is what a call came to.
type reply struct {
	bridge.Outcome
	err error
}

// call runs a call and waits for its end.
func (r *rig) call(c bridge.Call) bridge.Outcome {
	r.t.Helper()
	got := <-r.begin(c, &watch{})
	if got.err != nil {
		r.t.Fatalf("call of %s: %v", c.Tool, got.err)
	}
	return got.Outcome
}

// begin starts a call.
func (r *rig) begin(c bridge.Call, w bridge.Watcher) <-chan reply {
	return r.beginWith(r.ctx, c, w)
}

func (r *rig) beginWith(ctx context.Context, c bridge.Call, w bridge.Watcher) <-chan reply {
	out := make(chan reply, 1)
	h := r.hub
	r.work.Go(func() {
		o, err := h.Call(ctx, c, w)
		out <- reply{o, err}
	})
	return out
}

func (r *rig) join(id bridge.CallID, token string, w bridge.Watcher) <-chan reply {
	out := make(chan reply, 1)
	h, ctx := r.hub, r.ctx
	r.work.Go(func() {
		o, err := h.Join(ctx, id, token, w)
		out <- reply{o, err}
	})
	return out
}

// tool makes a catalogue entry; tier read unless the name begins with "write".
func tool(name string) bridge.Tool {
	t := bridge.Tool{Name: name, Tier: bridge.TierRead, Source: "builtin"}
	if len(name) >= 5 && name[:5] == "write" {
		t.Tier = "exec"
	}
	t.Definition = json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"the %s tool","inputSchema":{"type":"object"}}`, name, name))
	return t
}

func toolList(names ...string) []bridge.Tool {
	out := make([]bridge.Tool, len(names))
	for i, n := range names {
		out[i] = tool(n)
	}
	return out
}

// scripted is a host whose tools do what the test says.
type scripted struct {
	*hostlink.Host
	rig  *rig
	end  context.CancelFunc
	gone chan struct{}

	mu   sync.Mutex
	cut  bool // it cannot reach the daemon
	ran  map[bridge.CallID]int
	list []hostlink.CallParams
	you  hostlink.You
}

type runFunc func(ctx context.Context, c hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error)

func text(s string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, s))
}

// echo answers at once.
func echo(_ context.Context, c hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	return text(string(c.CallID)), nil
}

// held is a tool that runs until it is let go.
type held struct {
	begun chan bridge.CallID
	let   chan struct{}
}

func newHeld() *held { return &held{begun: make(chan bridge.CallID, 1000), let: make(chan struct{})} }

func (h *held) run(ctx context.Context, c hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	h.begun <- c.CallID
	select {
	case <-h.let:
		return text(string(c.CallID)), nil
	case <-ctx.Done():
		return nil, &hostlink.Error{Kind: hostlink.KindCancelled, Message: "aborted", Executed: bridge.ExecutedUnknown}
	}
}

// host attaches a host in a directory of that name and waits until its tools
// are listed.
func (r *rig) host(dir string, run runFunc, names ...string) *scripted {
	r.t.Helper()
	s := r.newHost(hostlink.Hello{Kind: "omp", Version: "18.1.16", CWD: "/home/u/" + dir}, run, names...)
	r.await(dir+" attached", func() bool {
		for _, h := range r.hub.Hosts() {
			if h.Name == dir && h.State != hub.HostNotReady {
				return true
			}
		}
		return false
	})
	return s
}

func (r *rig) newHost(hello hostlink.Hello, run runFunc, names ...string) *scripted {
	s := &scripted{rig: r, gone: make(chan struct{}), ran: map[bridge.CallID]int{}}
	if len(names) == 0 {
		names = []string{"read", "write"}
	}
	s.Host = hostlink.NewHost(hostlink.HostConfig{
		Dial: func(ctx context.Context) (net.Conn, error) {
			s.mu.Lock()
			cut := s.cut
			s.mu.Unlock()
			if cut {
				return nil, errors.New("cut off")
			}
			return r.dial(ctx)
		},
		Hello: hello,
		Run: func(ctx context.Context, c hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
			s.mu.Lock()
			s.ran[c.CallID]++
			s.list = append(s.list, c)
			s.mu.Unlock()
			return run(ctx, c, e)
		},
		OnYou: func(y hostlink.You) {
			s.mu.Lock()
			s.you = y
			s.mu.Unlock()
		},
	})
	s.SetTools(toolList(names...))
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	go func() {
		defer close(s.gone)
		_ = s.Run(ctx)
	}()
	r.t.Cleanup(s.leave)
	return s
}

// leave detaches the host as its user's quitting does.
func (s *scripted) leave() {
	s.end()
	<-s.gone
}

func (s *scripted) runs(id bridge.CallID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran[id]
}

func (s *scripted) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.list {
		out = append(out, string(c.CallID))
	}
	return out
}

func (s *scripted) status() hostlink.You {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.you
}

// await polls until something is true. In a synctest bubble it costs no time.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited too long for: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func (r *rig) awaitState(id bridge.CallID, want bridge.State) {
	r.t.Helper()
	r.await(fmt.Sprintf("call %s %s", id, want), func() bool {
		for _, c := range r.hub.Calls() {
			if c.ID == id {
				return c.State == want
			}
		}
		return false
	})
}

// record reads the ledger.
func (r *rig) record(id bridge.CallID) audit.Record {
	r.t.Helper()
	rec, err := r.ledger.Show(id)
	if err != nil {
		r.t.Fatalf("ledger: %v", err)
	}
	return rec
}

// raw is a host that speaks frame by frame, to misbehave.
type raw struct {
	*hostlink.Conn
	t       *testing.T
	welcome hostlink.Welcome
	calls   chan *hostlink.Incoming
	answers chan func() (json.RawMessage, *hostlink.Error)
	acks    chan bridge.CallID
	closing chan struct{}
	once    sync.Once
	ended   chan struct{}
}

// Request answers when the test does, whatever is cancelled.
func (h *raw) Request(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
	h.calls <- r
	select {
	case a := <-h.answers:
		return a()
	case <-h.closing:
		return nil, nil
	}
}

func (h *raw) Notice(method string, params json.RawMessage) {
	var ack hostlink.Ack
	if method == hostlink.MethodAck && json.Unmarshal(params, &ack) == nil {
		h.acks <- ack.CallID
	}
}

// rawHost says hello by hand.
func (r *rig) rawHost(hello hostlink.Hello) (*raw, error) {
	conn, err := r.dial(r.ctx)
	if err != nil {
		return nil, err
	}
	h := &raw{t: r.t, calls: make(chan *hostlink.Incoming, 100), ended: make(chan struct{}), closing: make(chan struct{}),
		answers: make(chan func() (json.RawMessage, *hostlink.Error), 100), acks: make(chan bridge.CallID, 100)}
	h.Conn = hostlink.NewConn(conn, h, nil)
	go func() {
		defer close(h.ended)
		_ = h.Run(context.Background())
	}()
	r.t.Cleanup(h.cut)
	if hello.Protocol == "" {
		hello.Protocol = hostlink.Protocol
	}
	got, err := h.Do(r.ctx, hostlink.MethodHello, hello, nil)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(got, &h.welcome); err != nil {
		return h, err
	}
	if h.welcome.Catalogue == hostlink.CatalogueSend {
		list := toolList("read", "write")
		err = h.Notify(hostlink.MethodTools, hostlink.Tools{Hash: hostlink.CatalogueHash(list), Tools: list})
	}
	return h, err
}

func (h *raw) cut() {
	h.once.Do(func() { close(h.closing) })
	h.Close()
	<-h.ended
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
