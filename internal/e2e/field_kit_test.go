package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// fieldTime bounds one exchange with the bridge: no answer for so long is a hang.
const fieldTime = 30 * time.Second

// The two revisions in which the field tests speak.
const (
	sessionRevision   = "2025-11-25"
	statelessRevision = "2026-07-28"
)

const statelessMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + statelessRevision + `","io.modelcontextprotocol/clientCapabilities":{}}`

// fieldTools are tools that show what arrived and how a call ends.
func fieldTools() []bridgetest.ScriptedTool {
	return []bridgetest.ScriptedTool{
		{Name: "echo", Tier: bridge.TierRead},
		{Name: "write", Tier: "write"},
		{Name: "fails", Tier: bridge.TierRead, Run: bridgeFails},
	}
}

// caller is a client that says exactly what it is told to.
type caller struct {
	t       *testing.T
	base    string // http://host:port
	token   string
	session string
	http    *http.Client
}

func newCaller(t *testing.T, b *bridgetest.Bridge, name string) *caller {
	t.Helper()
	c := &caller{t: t, base: strings.TrimSuffix(b.URL, "/mcp"), token: b.Token(t, auth.CreateOptions{Name: name}),
		http: &http.Client{Transport: &http.Transport{}, Timeout: fieldTime}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends one request. Headers come in pairs; "Host" sets the host, and an empty value takes a header away.
func (c *caller) do(method, path, body string, header ...string) reply {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
		return reply{}
	}
	if body == "" {
		req.Body = http.NoBody
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		switch name, value := header[i], header[i+1]; {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		default:
			req.Header.Set(name, value)
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err) // also off the test's goroutine
		return reply{}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Errorf("%s %s: the answer broke off: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, string(raw)}
}

// initialize starts a session and keeps its id.
func (c *caller) initialize() string {
	c.t.Helper()
	r := c.do("POST", "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+sessionRevision+`","capabilities":{},"clientInfo":{"name":"field","version":"1"}}}`)
	c.session = r.header.Get("Mcp-Session-Id")
	if r.status != http.StatusOK || c.session == "" {
		c.t.Fatalf("initialize: %d %s", r.status, r.body)
	}
	return c.session
}

// result runs a tool in the stateless revision and returns its answer.
func (c *caller) result(tool, args string) reply {
	c.t.Helper()
	return c.do("POST", "/mcp", statelessBody("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, args)),
		"Mcp-Protocol-Version", statelessRevision, "Mcp-Method", "tools/call", "Mcp-Name", tool)
}

func statelessBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":5,"method":"` + method + `","params":{` + params + statelessMeta + `}}`
}

// rawHTTP sends bytes on a connection of its own and reads what comes until the bridge closes it or as long as wait says.
// It reports whether the bridge closed it.
func (c *caller) rawHTTP(request string, wait time.Duration) (got string, closed bool) {
	c.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		c.t.Error(err)
		return "", false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(wait))
	if _, err := io.WriteString(conn, request); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Logf("the bridge took not all of the request: %v", err)
	}
	raw, err := io.ReadAll(conn)
	return string(raw), !errors.Is(err, os.ErrDeadlineExceeded)
}

// badHost is the other end of the host link, which sends what no host should.
type badHost struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

// dialBad connects to the host socket and says nothing.
func dialBad(t *testing.T, b *bridgetest.Bridge) *badHost {
	t.Helper()
	conn, err := b.DialHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(2 * fieldTime))
	t.Cleanup(func() { _ = conn.Close() })
	return &badHost{t, conn, bufio.NewReader(conn)}
}

// attachBad attaches a host of that name and instance with the tool "write".
func attachBad(t *testing.T, b *bridgetest.Bridge, name, instance string) *badHost {
	t.Helper()
	h := dialBad(t, b)
	h.hello(name, instance, "")
	h.tools("write")
	b.WaitStatus(t, "the host "+name+" has its tool", func(s control.Status) bool {
		for _, ho := range s.Hosts {
			if ho.Name == name && ho.Tools == 1 {
				return true
			}
		}
		return false
	})
	return h
}

func (h *badHost) send(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.conn, line+"\n"); err != nil {
		h.t.Fatalf("send %.80q: %v", line, err)
	}
}

// hello sends one, with more fields, and waits for the welcome.
func (h *badHost) hello(name, instance, more string) hostlink.Welcome {
	h.t.Helper()
	h.send(fmt.Sprintf(`{"id":1,"method":"hello","params":{"protocol":"1.0","kind":"bad","instance":%q,"pid":%d,"cwd":"/bad","name":%q,"state":"idle"%s}}`,
		instance, os.Getpid(), name, more))
	for {
		f := h.next()
		if f.ID != 1 || f.Method != "" {
			continue
		}
		var w hostlink.Welcome
		if err := json.Unmarshal(f.Result, &w); err != nil || f.Error != nil {
			h.t.Fatalf("hello was answered %s, %s", f.Result, f.Error)
		}
		return w
	}
}

// tools offers tools of the tier write.
func (h *badHost) tools(names ...string) {
	h.t.Helper()
	list := make([]string, 0, len(names))
	for _, n := range names {
		list = append(list, fmt.Sprintf(`{"name":%q,"tier":"write","definition":{"name":%q,"inputSchema":{"type":"object"}}}`, n, n))
	}
	h.send(`{"method":"tools","params":{"hash":"h","tools":[` + strings.Join(list, ",") + `]}}`)
}

// linkFrame is one frame of the daemon.
type linkFrame struct {
	ID     int64
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// next reads one frame; pings are left unanswered.
func (h *badHost) next() linkFrame {
	h.t.Helper()
	line, err := h.lines.ReadBytes('\n')
	if err != nil {
		h.t.Fatalf("read from the bridge: %v", err)
	}
	var f linkFrame
	if err := json.Unmarshal(line, &f); err != nil {
		h.t.Fatalf("the bridge sent %q: %v", line, err)
	}
	return f
}

// call waits for the next call and returns its id on the link and its own.
func (h *badHost) call() (id int64, call hostlink.CallParams) {
	h.t.Helper()
	for {
		f := h.next()
		if f.Method != hostlink.MethodCall {
			continue
		}
		if err := json.Unmarshal(f.Params, &call); err != nil {
			h.t.Fatalf("the call %s: %v", f.Params, err)
		}
		return f.ID, call
	}
}
