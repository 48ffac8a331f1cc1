package mcpfront_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/mcpfront"
)

func TestMain(m *testing.M) {
	// The server lingers for half a second after it refused a body.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const (
	both   = "application/json, text/event-stream"
	modern = "2026-07-28"
	meta   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"new","version":"2"}}`
	// patience bounds every wait in these tests; nothing takes it in full unless it fails.
	patience = 20 * time.Second
)

// rig is the front behind a real server, with callers named by their token.
type rig struct {
	t      testing.TB
	hub    *hubFake
	front  *mcpfront.Front
	url    string
	client *http.Client
}

// newRig serves on a loopback socket.
func newRig(t testing.TB) *rig {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, newHubFake(), ln, (&net.Dialer{}).DialContext)
}

func newFront(t testing.TB, hub mcpfront.Hub) *mcpfront.Front {
	t.Helper()
	f, err := mcpfront.New(mcpfront.Config{Hub: hub, Key: bytes.Repeat([]byte{7}, 32), Body: 1 << 20, Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func serve(t testing.TB, hub *hubFake, ln net.Listener, dial func(context.Context, string, string) (net.Conn, error)) *rig {
	t.Helper()
	front := newFront(t, hub)
	expires := time.Now().Add(25 * time.Second)
	srv := &http.Server{
		ConnContext:       front.ConnContext,
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			p := bridge.Peer{Token: "t_" + name, Name: name, Role: bridge.RolePeer}
			switch name {
			case "narrow":
				p.Tools = []string{"re*"}
			case "short":
				p.Expires = expires
			}
			front.ServeHTTP(w, r.WithContext(bridge.WithPeer(r.Context(), p)))
		}),
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(ln) })
	tr := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
		wg.Wait()
	})
	return &rig{t: t, hub: hub, front: front, url: "http://" + ln.Addr().String(), client: &http.Client{Transport: tr}}
}

// reply is a response with its body still open.
type reply struct {
	*http.Response
	t     testing.TB
	lines *bufio.Reader
	close context.CancelFunc
	first string // for the test's own use
}

// do sends a request of the token "laptop". header is name, value, …
func (g *rig) do(method, path, body string, header ...string) *reply {
	g.t.Helper()
	r, err := g.try(g.t.Context(), method, path, body, header...)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (g *rig) try(ctx context.Context, method, path, body string, header ...string) (*reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, strings.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer laptop")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", both)
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Del(header[i]); header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := g.client.Do(req) // the reply keeps its body, and the end of its context closes it
	if err != nil {
		cancel()
		return nil, err
	}
	g.t.Cleanup(cancel)
	return &reply{resp, g.t, bufio.NewReader(resp.Body), cancel, ""}, nil
}

// post sends a legacy request of a session.
func (g *rig) post(session, body string, header ...string) *reply {
	g.t.Helper()
	return g.do(http.MethodPost, "/mcp", body, append([]string{"Mcp-Session-Id", session}, header...)...)
}

// modern sends a request of the stateless era; params without its braces.
func (g *rig) modern(id, method, params string, header ...string) *reply {
	g.t.Helper()
	if params != "" {
		params += ","
	}
	all := []string{"Mcp-Protocol-Version", modern, "Mcp-Method", method}
	return g.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{`+params+meta+`}}`,
		append(all, header...)...)
}

// session initializes with a revision and gives the id.
func (g *rig) session(revision string, header ...string) string {
	g.t.Helper()
	r := g.do(http.MethodPost, "/mcp", initialize(revision), header...)
	r.all()
	id := r.Header.Get("Mcp-Session-Id")
	if r.StatusCode != http.StatusOK || id == "" {
		g.t.Fatalf("initialize: %d, session %q", r.StatusCode, id)
	}
	return id
}

func initialize(revision string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`
}

func callBody(id, name, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `"` + more + `}}`
}

// all reads the body to its end.
func (r *reply) all() string {
	r.t.Helper()
	defer r.close()
	b, err := io.ReadAll(r.lines)
	if err != nil {
		r.t.Fatalf("read the body: %v (so far %q)", err, b)
	}
	_ = r.Body.Close()
	return string(b)
}

// block reads one event or comment, and what came instead of one at the end.
func (r *reply) block() string {
	r.t.Helper()
	s, err := r.tryBlock()
	if err != nil {
		r.t.Fatalf("read an event: %v (so far %q)", err, s)
	}
	return s
}

func (r *reply) tryBlock() (string, error) {
	var b strings.Builder
	for {
		line, err := r.lines.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\n" {
			return b.String(), err
		}
	}
}

// field is the value of an event's field.
func field(block, name string) string {
	for line := range strings.Lines(block) {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSuffix(v, "\n")
		}
	}
	return ""
}

// progressOf takes a progress notification apart.
func progressOf(t *testing.T, data string) (int, string) {
	t.Helper()
	var n struct {
		Params struct {
			Progress int
			Message  string
		}
	}
	if err := json.Unmarshal([]byte(data), &n); err != nil || n.Params.Progress == 0 {
		t.Fatalf("no progress: %q (%v)", data, err)
	}
	return n.Params.Progress, n.Params.Message
}

// finish ends the newest call of a tool with a result.
func (g *rig) finish(tool, result string) {
	g.t.Helper()
	g.await(tool, running).end(bridge.Outcome{State: bridge.Done, Executed: bridge.ExecutedYes, Result: json.RawMessage(result)})
}

func (g *rig) await(tool string, want func(*callFake) bool) *callFake {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	c, err := g.hub.await(ctx, tool, want)
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// outcome is how a call ended.
func (g *rig) outcome(c *callFake) bridge.Outcome {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	return c.outcome
}

const okResult = `{"content":[{"type":"text","text":"done"}]}`

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func mustRequest(t *testing.T, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// ask sends one request past the network.
func ask(t *testing.T, f *mcpfront.Front, body, session string) *httptest.ResponseRecorder {
	t.Helper()
	r := mustRequest(t, body)
	r.Header.Set("Mcp-Session-Id", session)
	w := newRecorder()
	f.ServeHTTP(w, r.WithContext(bridge.WithPeer(r.Context(), bridge.Peer{Token: "t_1", Name: "one"})))
	return w
}
