package stdiohost_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/stdiohost"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = time.Minute

// serverEnv makes the test binary an MCP server on stdio; its value names the
// server's ways.
const serverEnv = "STDIOHOST_TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(serverEnv); mode != "" {
		serve(mode, os.Stdin, os.Stdout)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// daemon is the other end of the link.
type daemon struct {
	t       *testing.T
	dir     string
	links   chan *link
	tools   chan hostlink.Tools
	states  chan string
	stderr  *buffer
	program *stdiohost.Program
}

type link struct {
	*hostlink.Conn
	hello hostlink.Hello
}

// attach runs the test's server as a host for the length of the test.
func attach(t *testing.T, mode string) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: t.TempDir(), links: make(chan *link, 4), tools: make(chan hostlink.Tools, 16), states: make(chan string, 64), stderr: &buffer{}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.program = stdiohost.New(stdiohost.Config{
		Name:    "fixture",
		Command: []string{"/usr/bin/env", serverEnv + "=" + mode, "STDIOHOST_TEST_DIR=" + d.dir, self},
		Dial:    d.dial, Version: "1.2.3", Stderr: d.stderr,
		FirstWait: time.Millisecond, MaxWait: 10 * time.Millisecond,
		Link: hostlink.Backoff{First: time.Millisecond, Max: 10 * time.Millisecond},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.program.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return d
}

func (d *daemon) dial(context.Context) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	l := &link{}
	ready := make(chan struct{})
	l.Conn = hostlink.NewConn(ours, &ears{d: d, link: l, ready: ready}, nil)
	close(ready)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(d.t.Context())
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	d.t.Cleanup(func() {
		cancel()
		<-done
	})
	return theirs, nil
}

type ears struct {
	d     *daemon
	link  *link
	ready chan struct{}
}

func (e *ears) Request(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
	<-e.ready
	if err := json.Unmarshal(r.Params, &e.link.hello); err != nil {
		e.d.t.Errorf("hello: %v", err)
	}
	raw, err := json.Marshal(hostlink.Welcome{Protocol: hostlink.Protocol, Name: "fixture", Catalogue: hostlink.CatalogueSend})
	if err != nil {
		e.d.t.Error(err)
	}
	if err := r.Reply(raw); err != nil && !errors.Is(err, hostlink.ErrLinkLost) {
		e.d.t.Error(err)
	}
	if e.link.hello.State == hostlink.StateIdle { // it was quicker than the link
		e.d.states <- hostlink.StateIdle
	}
	e.d.links <- e.link
	return nil, nil
}

func (e *ears) Notice(method string, params json.RawMessage) {
	switch method {
	case hostlink.MethodTools:
		var tools hostlink.Tools
		if err := json.Unmarshal(params, &tools); err != nil {
			e.d.t.Error(err)
		}
		e.d.tools <- tools
	case hostlink.MethodState:
		var s hostlink.StateNotice
		if err := json.Unmarshal(params, &s); err != nil {
			e.d.t.Error(err)
		}
		e.d.states <- s.State
	}
}

// wait takes from a channel with patience.
func wait[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// await takes states until the wanted one.
func (d *daemon) await(state string) {
	d.t.Helper()
	for wait(d.t, "the state "+state, d.states) != state {
	}
}

// ready waits until the child can take calls.
func ready(t *testing.T, mode string) (*daemon, *link) {
	t.Helper()
	d := attach(t, mode)
	l := wait(t, "the link", d.links)
	d.await(hostlink.StateIdle)
	return d, l
}

var lastCall struct {
	sync.Mutex
	n int
}

func (l *link) start(t *testing.T, tool, args string, events func(string, json.RawMessage)) (int64, <-chan outcome) {
	t.Helper()
	lastCall.Lock()
	lastCall.n++
	id := bridge.CallID(fmt.Sprint("c_", lastCall.n))
	lastCall.Unlock()
	got := make(chan outcome, 1)
	n, err := l.Start(hostlink.MethodCall, hostlink.CallParams{CallID: id, Tool: tool, Args: json.RawMessage(args)}, events,
		func(result json.RawMessage, err error) { got <- outcome{string(result), err} })
	if err != nil {
		t.Fatal(err)
	}
	return n, got
}

type outcome struct {
	result string
	err    error
}

func (l *link) call(t *testing.T, tool, args string) (string, error) {
	t.Helper()
	_, got := l.start(t, tool, args, nil)
	o := wait(t, "the answer of "+tool, got)
	return o.result, o.err
}

// eventually polls with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in %v", what, patience)
		}
		<-tick.C
	}
}

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// server is the MCP server of these tests, in the child process. It keeps no
// more to the rules than the programs in the field do.
type server struct {
	mode  string
	mu    sync.Mutex
	out   *bufio.Writer
	extra bool // a tool that came later
}

type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func serve(mode string, stdin io.Reader, stdout io.Writer) {
	s := &server{mode: mode, out: bufio.NewWriter(stdout)}
	fmt.Fprint(os.Stderr, "starting \x1b[31mred\x1b[0m\nhalf a line")
	if mode == "garbage" {
		s.line("Welcome to the server!\x07")
		s.line(`{"not":"rpc"}`)
		s.line("")
	}
	in := bufio.NewReaderSize(stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		s.record(line)
		var m rpc
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintln(os.Stderr, "bad line from the bridge:", err)
			continue
		}
		s.message(m, line)
	}
}

// record leaves what arrived where the test finds it.
func (s *server) record(line []byte) {
	f, err := os.OpenFile(filepath.Join(os.Getenv("STDIOHOST_TEST_DIR"), "in.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.Write(line)
	_ = f.Close()
}

func (s *server) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.WriteString(text + "\n")
	_ = s.out.Flush()
}

func (s *server) result(m rpc, result string) {
	s.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

func (s *server) message(m rpc, line []byte) {
	switch m.Method {
	case "initialize":
		revision := "2025-11-25"
		if s.mode == "old" {
			revision = "2024-11-05"
		}
		s.result(m, `{"protocolVersion":"`+revision+`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fixture","version":"1"}}`)
	case "notifications/initialized":
		s.line(`{"jsonrpc":"2.0","id":"p-1","method":"ping"}`)
		s.line(`{"jsonrpc":"2.0","id":99,"method":"sampling/createMessage","params":{}}`)
	case "tools/list":
		s.list(m)
	case "tools/call":
		var p struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(m.Params, &p)
		s.call(p.Name, m, line)
	}
}

func (s *server) list(m rpc) {
	if s.mode == "toolless" {
		s.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID))
		return
	}
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch {
	case s.mode == "circle":
		s.result(m, `{"tools":[],"nextCursor":"again"}`)
	case p.Cursor == "":
		s.result(m, `{"tools":[{"name":"raw","inputSchema":{"type":"object"},"x-extra":9007199254740993,"annotations":{"readOnlyHint":true}},`+
			`{"name":"liar","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"true"}},{"title":"nameless"}],"nextCursor":"two"}`)
	default:
		tools := ""
		for _, name := range []string{"args", "fail", "unknown", "progress", "hang", "grow", "crash", "huge", "hugetail", "mute"} {
			tools += `{"name":"` + name + `","inputSchema":{"type":"object"}},`
		}
		if s.extra {
			tools += `{"name":"late","inputSchema":{"type":"object"}},`
		}
		s.result(m, `{"tools":[`+strings.TrimSuffix(tools, ",")+`]}`)
	}
}

const rawResult = `{"content":[{"type":"text","text":"é \u2028 <b>"},{"type":"hologram","data":{"n":9007199254740993}}],"isError":false,"structuredContent":{"z":1e400,"a":1.0},"x-more":[ 1 , 2 ]}`

func (s *server) call(tool string, m rpc, line []byte) {
	switch tool {
	case "raw":
		s.result(m, rawResult)
	case "args":
		text, _ := json.Marshal(string(line))
		s.result(m, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	case "fail":
		s.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unknown tool: fail"}}`, m.ID))
	case "progress":
		token := m.ID // we ask with the id
		s.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0,"total":100,"message":"fetching"}}`, token))
		s.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":50,"total":100}}`, token))
		s.line(fmt.Sprintf(`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":75.5}}]`, token))
		s.result(m, `{"content":[]}`)
	case "grow":
		s.extra = true
		s.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.result(m, `{"content":[]}`)
	case "crash":
		os.Exit(3)
	case "huge":
		s.result(m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 16<<20)+`"}]}`)
	case "hugetail":
		s.line(`{"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", hostlink.MaxFrame) + `"}]},"id":` + string(m.ID) + `}`)
	case "mute":
		s.line(strings.Repeat("x", hostlink.MaxFrame+1))
	case "hang": // until it is cancelled, and not even then
	}
}
