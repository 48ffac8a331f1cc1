package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/probe"
)

const token = "a2ab_test-of-probe"

// asked is a request as the server saw it.
type asked struct {
	Method string
	Header http.Header
	Body   struct {
		ID     json.RawMessage
		Method string
		Params map[string]json.RawMessage
	}
}

// serve starts a server and returns a client for it.
func serve(t *testing.T, handle func(w http.ResponseWriter, a asked)) *probe.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := asked{Method: r.Method, Header: r.Header}
		data, err := io.ReadAll(r.Body)
		if err == nil && len(data) > 0 {
			err = json.Unmarshal(data, &a.Body)
		}
		if err != nil {
			t.Errorf("request %q: %v", data, err)
		}
		handle(w, a)
	}))
	t.Cleanup(server.Close)
	c := probe.New(server.URL+"/mcp", token)
	t.Cleanup(c.Close)
	return c
}

func reply(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, text)
	w.(http.Flusher).Flush()
}

func TestStatelessRequestsCarryWhatTheRevisionWants(t *testing.T) {
	t.Parallel()
	var seen []asked
	c := serve(t, func(w http.ResponseWriter, a asked) {
		seen = append(seen, a)
		switch a.Body.Method {
		case "server/discover":
			reply(w, a.Body.ID, `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{},
				"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a2a-bridge","version":"1.0.0"}}}`)
		case "tools/list":
			if string(a.Body.Params["cursor"]) == `"two"` {
				reply(w, a.Body.ID, `{"tools":[{"name":"bash"}]}`)
				return
			}
			reply(w, a.Body.ID, `{"tools":[{"name":"read","description":"d","inputSchema":{"type":"object"}}],"nextCursor":"two"}`)
		case "tools/call":
			reply(w, a.Body.ID, `{"content":[{"type":"text","text":"a"},{"type":"image","data":""},{"type":"text","text":"b"}],"isError":false}`)
		}
	})
	server, err := c.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(probe.Server{Name: "a2a-bridge", Version: "1.0.0", Versions: []string{"2026-07-28", "2025-11-25"}}, server); diff != "" {
		t.Errorf("Discover (-want +got):\n%s", diff)
	}
	tools, err := c.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []probe.Tool{{Name: "read", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}, {Name: "bash"}}
	if diff := cmp.Diff(want, tools); diff != "" {
		t.Errorf("ListTools (-want +got):\n%s", diff)
	}
	result, err := c.CallTool(t.Context(), "größe", json.RawMessage(`{"n":9007199254740993}`), nil)
	if err != nil || result.Text != "a\nb" || result.IsError {
		t.Errorf("CallTool = %+v, %v", result, err)
	}

	ids := map[string]bool{}
	for _, a := range seen {
		ids[string(a.Body.ID)] = true
		for name, want := range map[string]string{"Authorization": "Bearer " + token, "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": a.Body.Method, "Accept": "application/json, text/event-stream", "Content-Type": "application/json"} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: header %s is %q, want %q", a.Body.Method, name, got, want)
			}
		}
		var meta map[string]any
		if err := json.Unmarshal(a.Body.Params["_meta"], &meta); err != nil || meta["io.modelcontextprotocol/protocolVersion"] != "2026-07-28" ||
			meta["io.modelcontextprotocol/clientCapabilities"] == nil || meta["progressToken"] != nil {
			t.Errorf("%s: _meta is %v, %v", a.Body.Method, meta, err)
		}
	}
	if len(ids) != len(seen) {
		t.Errorf("%d ids for %d requests", len(ids), len(seen))
	}
	call := seen[len(seen)-1]
	if got := call.Header.Get("Mcp-Name"); got != "=?base64?Z3LDtsOfZQ==?=" {
		t.Errorf("Mcp-Name is %q", got)
	}
	if got := string(call.Body.Params["arguments"]); got != `{"n":9007199254740993}` {
		t.Errorf("arguments are %s", got)
	}
}

func TestProgressIsHeardInOrderBeforeTheResult(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, a asked) {
		var meta struct{ ProgressToken json.RawMessage }
		if err := json.Unmarshal(a.Body.Params["_meta"], &meta); err != nil || len(meta.ProgressToken) == 0 {
			t.Errorf("no progress was asked for: %v", err)
		}
		stream(w, ": keep alive\n\n"+
			`data: {"method":"notifications/progress","params":{"progress":1,"message":"one"}}`+"\n\n"+
			"data: {\"method\":\"notifications/progress\",\ndata:  \"params\":{\"progress\":2,\"message\":\"two\"}}\r\n\r\n"+
			`data: {"id":999,"result":{}}`+"\n\n"+
			`data: {"id":`+string(a.Body.ID)+`,"result":{"content":[{"type":"text","text":"done"}]}}`+"\n\n")
	})
	var heard []string
	result, err := c.CallTool(t.Context(), "bash", json.RawMessage(`{}`), func(s string) { heard = append(heard, s) })
	if err != nil || result.Text != "done" {
		t.Errorf("CallTool = %+v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, heard); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestErrorsOfABridgeSayWhetherTheToolRan(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, a asked) {
		reply(w, a.Body.ID, `{"isError":true,"content":[{"type":"text","text":"Not executed: …"}],
			"_meta":{"a2a-bridge/call":"c_9d2mfa","a2a-bridge/executed":"no","a2a-bridge/retry":"safe"}}`)
	})
	got, err := c.CallTool(t.Context(), "read", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := probe.Result{Raw: got.Raw, IsError: true, Text: "Not executed: …", Call: "c_9d2mfa", Executed: "no", Retry: "safe"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFailuresAreToldApart(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) func(http.ResponseWriter, asked) {
		return func(w http.ResponseWriter, _ asked) { w.WriteHeader(code); _, _ = io.WriteString(w, body) }
	}
	for _, test := range []struct {
		name   string
		handle func(http.ResponseWriter, asked)
		check  func(error) bool
	}{
		{"no token", status(401, "This bridge needs a valid token."), func(err error) bool {
			var e *probe.StatusError
			return errors.As(err, &e) && e.Status == 401 && e.Body == "This bridge needs a valid token."
		}},
		{"a JSON-RPC error with a status", status(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}`), func(err error) bool {
			var e *probe.RPCError
			var s *probe.StatusError
			return errors.As(err, &e) && e.Code == -32022 && errors.As(err, &s) && s.Status == 400
		}},
		{"a JSON-RPC error", func(w http.ResponseWriter, a asked) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"id":%s,"error":{"code":-32601,"message":"no"}}`, a.Body.ID)
		}, func(err error) bool { var e *probe.RPCError; return errors.As(err, &e) && e.Code == -32601 }},
		{"a web page", func(w http.ResponseWriter, _ asked) { _, _ = io.WriteString(w, "<html>hello") },
			func(err error) bool { return errors.Is(err, probe.ErrNotMCP) }},
		{"other JSON", func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"ok":true}`)
		}, func(err error) bool { return errors.Is(err, probe.ErrNotMCP) }},
		{"neither result nor error", func(w http.ResponseWriter, a asked) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"id":%s}`, a.Body.ID)
		}, func(err error) bool { return errors.Is(err, probe.ErrNotMCP) }},
		{"a result of another kind", func(w http.ResponseWriter, a asked) { reply(w, a.Body.ID, `"text"`) },
			func(err error) bool { return errors.Is(err, probe.ErrNotMCP) }},
		{"an event that is not JSON", func(w http.ResponseWriter, _ asked) { stream(w, "data: {\n\n") },
			func(err error) bool { return errors.Is(err, probe.ErrNotMCP) }},
		{"a stream that ends", func(w http.ResponseWriter, _ asked) { stream(w, "id: x\ndata:\n\n") },
			func(err error) bool { return errors.Is(err, probe.ErrLost) }},
		{"a body that breaks", func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id":`)
		}, func(err error) bool { return errors.Is(err, probe.ErrLost) }},
		{"an endless answer", func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Content-Type", "application/json")
			endless(w, "          ")
		}, func(err error) bool { return errors.Is(err, probe.ErrNotMCP) }},
		{"an endless event", func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Content-Type", "text/event-stream")
			endless(w, "data: x\n")
		}, func(err error) bool { return errors.Is(err, probe.ErrNotMCP) && !errors.Is(err, probe.ErrLost) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, test.handle)
			if r, err := c.CallTool(t.Context(), "read", nil, nil); err == nil || !test.check(err) {
				t.Errorf("CallTool = %+v, %v", r, err)
			} else if strings.Contains(err.Error(), token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

// endless writes until the client has had enough.
func endless(w io.Writer, text string) {
	block := []byte(strings.Repeat(text, 8192))
	for {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		c := serve(t, func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(code)
		})
		var e *probe.StatusError
		if _, err := c.Discover(t.Context()); !errors.As(err, &e) || e.Status != code {
			t.Errorf("%d: %v", code, err)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

func TestNobodyListening(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	if _, err := probe.New("http://"+addr, token).Discover(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), token) {
		t.Errorf("Discover = %v", err)
	}
}

func TestPrintingAClientDoesNotShowItsToken(t *testing.T) {
	t.Parallel()
	c := probe.New("http://127.0.0.1:1/mcp", token)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(verb, c); strings.Contains(out, token) {
			t.Errorf("%s shows %s", verb, out)
		}
	}
}

func TestCallEndsWithItsContextAndTheServerSeesIt(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"before the headers", "in the stream"} {
		started, gone := make(chan struct{}), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if kind == "in the stream" {
				stream(w, ": hello\n\n")
			}
			close(started)
			<-r.Context().Done()
			close(gone)
		}))
		c := probe.New(server.URL, token)
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		go func() { <-started; cancel(stop) }()
		if _, err := c.CallTool(ctx, "bash", nil, nil); !errors.Is(err, context.Canceled) && !errors.Is(err, stop) {
			t.Errorf("%s: CallTool = %v", kind, err)
		}
		<-gone
		server.Close()
	}
}

// legacyServer is the least of a server with sessions. call answers tools/call
// and the GETs that resume it, one at a time.
type legacyServer struct {
	mu    sync.Mutex // guards heard and what call uses
	heard []string
	call  func(w http.ResponseWriter, a asked)
}

func (l *legacyServer) handle(w http.ResponseWriter, a asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, strings.TrimSpace(a.Method+" "+a.Body.Method))
	if a.Body.Method != "initialize" && (a.Header.Get("Mcp-Session-Id") != "s1" || a.Header.Get("Mcp-Protocol-Version") != "2025-06-18") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch {
	case a.Body.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		reply(w, a.Body.ID, `{"protocolVersion":"2025-06-18","serverInfo":{"name":"a2a-bridge","version":"1.0.0"},"capabilities":{}}`)
	case a.Body.Method == "notifications/initialized":
		if len(a.Body.ID) > 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	case a.Body.Method == "tools/list":
		reply(w, a.Body.ID, `{"tools":[{"name":"read"}]}`)
	case a.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		l.call(w, a)
	}
}

// requests returns what was asked so far.
func (l *legacyServer) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.heard)
}

func session(t *testing.T, call func(w http.ResponseWriter, a asked)) (*probe.Session, *legacyServer) {
	t.Helper()
	l := &legacyServer{call: call}
	s, err := serve(t, l.handle).Initialize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func TestSessionFromBeginToEnd(t *testing.T) {
	t.Parallel()
	s, l := session(t, func(w http.ResponseWriter, a asked) { reply(w, a.Body.ID, `{"content":[{"type":"text","text":"hi"}]}`) })
	if diff := cmp.Diff(probe.Server{Name: "a2a-bridge", Version: "1.0.0", Versions: []string{"2025-06-18"}}, s.Server); diff != "" {
		t.Errorf("Server (-want +got):\n%s", diff)
	}
	if tools, err := s.ListTools(t.Context()); err != nil || len(tools) != 1 {
		t.Errorf("ListTools = %v, %v", tools, err)
	}
	if r, err := s.CallTool(t.Context(), "read", nil, nil); err != nil || r.Text != "hi" {
		t.Errorf("CallTool = %+v, %v", r, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want := []string{"POST initialize", "POST notifications/initialized", "POST tools/list", "POST tools/call", "DELETE"}
	if diff := cmp.Diff(want, l.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestBrokenStreamIsResumedWhereItWasAndTheCallIsNotSentAgain(t *testing.T) {
	t.Parallel()
	var id json.RawMessage
	step := 0
	s, l := session(t, func(w http.ResponseWriter, a asked) {
		step++
		if want := []string{"", "e1", "e2", "e2"}[step-1]; a.Header.Get("Last-Event-ID") != want {
			t.Errorf("step %d: Last-Event-ID is %q, want %q", step, a.Header.Get("Last-Event-ID"), want)
		}
		switch step {
		case 1:
			id = a.Body.ID
			stream(w, "id: e1\nretry: 1\ndata:\n\n"+`data: {"method":"notifications/progress","params":{"message":"one"}}`+"\n\n")
		case 2:
			stream(w, "id: e2\ndata: \n\n")
		case 3: // broken off without any event
			hijack(w)
		case 4:
			stream(w, `data: {"method":"notifications/progress","params":{"message":"two"}}`+"\n\ndata: {\"id\":"+string(id)+`,"result":{"content":[{"type":"text","text":"once"}]}}`+"\n\n")
		}
	})
	var heard []string
	r, err := s.CallTool(t.Context(), "bash", nil, func(p string) { heard = append(heard, p) })
	if err != nil || r.Text != "once" {
		t.Errorf("CallTool = %+v, %v", r, err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, heard); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"POST tools/call", "GET", "GET", "GET"}, l.requests()[2:]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// hijack cuts the connection.
func hijack(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.Close()
	}
}

func TestStreamThatCannotBeResumedIsLost(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(http.ResponseWriter, asked){
		"no event id": func(w http.ResponseWriter, _ asked) { stream(w, ": hello\n\n") },
		"cut at once": func(w http.ResponseWriter, _ asked) { hijack(w) },
		"resume refused": func(w http.ResponseWriter, a asked) {
			if a.Method == http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			stream(w, "id: e1\nretry: 1\ndata:\n\n")
		},
	} {
		s, l := session(t, call)
		r, err := s.CallTool(t.Context(), "bash", nil, nil)
		if name == "cut at once" {
			if err == nil || errors.Is(err, context.Canceled) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		} else if !errors.Is(err, probe.ErrLost) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		calls := 0
		for _, h := range l.requests() {
			if h == "POST tools/call" {
				calls++
			}
		}
		if calls != 1 {
			t.Errorf("%s: the call was sent %d times", name, calls)
		}
	}
}

func TestResumingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := session(t, func(w http.ResponseWriter, a asked) {
		if a.Method == http.MethodGet {
			cancel()
		}
		stream(w, "id: e1\nretry: 1\ndata:\n\n")
	})
	if _, err := s.CallTool(ctx, "bash", nil, nil); !errors.Is(err, context.Canceled) || !errors.Is(err, probe.ErrLost) {
		t.Errorf("CallTool = %v", err)
	}
}

func TestInitializeRefusesWhatIsNotMCP(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, a asked) { reply(w, a.Body.ID, `{}`) })
	if s, err := c.Initialize(t.Context()); !errors.Is(err, probe.ErrNotMCP) {
		t.Errorf("Initialize = %+v, %v", s, err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("id: e1\nretry: 1000\ndata:\n\ndata: {\"id\":1,\"result\":{}}\n\n")
	f.Add(": comment\r\n\r\ndata: {\"method\":\"notifications/progress\",\"params\":{\"message\":\"x\"}}\r\n\r\n")
	f.Add("data\nid\nretry\n\n")
	f.Add("id: a\rb\ndata:\n\n")
	f.Add("data: {\"id\":1,\"error\":{\"code\":1,\"message\":\"m\"}}\n\n")
	f.Add("id: a\x00b\nretry: 99999999999999999999\ndata: [\ndata: ]\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		result, at, err := probe.ReadStream(strings.NewReader(text), "1", func(string) {})
		if (err == nil) != (len(result) > 0) {
			t.Errorf("result %q and error %v", result, err)
		}
		if err == nil && !json.Valid(result) {
			t.Errorf("result %q is not JSON", result)
		}
		if strings.ContainsAny(at, "\x00\r\n") {
			t.Errorf("event id %q cannot be a header", at)
		}
	})
}
