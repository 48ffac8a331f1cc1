package mcpfront_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/mcpfront"
)

// TestClientsWithTheSameIDs: neither progress nor a cancel nor an answer of one
// client reaches another, be it another session or another token.
func TestClientsWithTheSameIDs(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	type client struct {
		session string
		auth    string
		answer  *reply
		call    *callFake
	}
	clients := []*client{{auth: "Bearer laptop"}, {auth: "Bearer laptop"}, {auth: "Bearer other"}}
	for i, c := range clients {
		c.session = g.session("2025-11-25", "Authorization", c.auth)
		c.answer = g.post(c.session, callBody("1", "hold", `,"_meta":{"progressToken":1}`), "Authorization", c.auth)
		c.answer.block()
		c.call = g.await("hold", func(fc *callFake) bool { return fc.state == bridge.Running && (i == 0 || fc != clients[i-1].call) })
	}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	// Another token cannot cancel with this one's session.
	g.post(clients[0].session, cancel, "Authorization", "Bearer other").all()
	for i, c := range clients {
		c.call.event(bridge.Event{Kind: bridge.EventProgress, Text: fmt.Sprintf("client %d", i)})
		if b := c.answer.block(); !strings.Contains(b, fmt.Sprintf("client %d", i)) {
			t.Errorf("client %d got %q", i, b)
		}
	}
	g.post(clients[0].session, cancel).all()
	if b := clients[0].answer.all(); b != "" {
		t.Errorf("the cancelled call was answered: %q", b)
	}
	for i, c := range clients[1:] {
		c.call.end(bridge.Outcome{State: bridge.Done, Result: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
		if b := c.answer.all(); !strings.Contains(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"n":%d}}`, i)) {
			t.Errorf("client %d got %q", i+1, b)
		}
	}
}

// TestDuplicateIDsInFlight: 1 and "1" are two ids; true duplicates are both
// answered, and a cancel hits both.
func TestDuplicateIDsInFlight(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	var answers []*reply
	var calls []*callFake
	for _, id := range []string{"1", "1", `"1"`, "2", "2"} {
		r := g.post(s, callBody(id, "hold", ""))
		r.block()
		answers = append(answers, r)
		calls = append(calls, g.await("hold", running))
	}
	g.post(s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).all()
	for i, want := range []string{"", "", `"id":"1","result":{"n":2}`, `"id":2,"result":{"n":3}`, `"id":2,"result":{"n":4}`} {
		calls[i].end(bridge.Outcome{State: bridge.Done, Result: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
		got := answers[i].all()
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("answer %d = %q, want %q in it", i, got, want)
		}
		if cancelled := g.outcome(calls[i]).State == bridge.Cancelled; cancelled != (want == "") {
			t.Errorf("call %d: cancelled is %v", i, cancelled)
		}
	}
}

// TestBytesPass: ids, arguments and results come out as they went in.
func TestBytesPass(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	for _, id := range []string{`9007199254740993`, `-0`, `1.50E+2`, `""`, `"\u00e9\/é\\"`, `"` + strings.Repeat("x", 254) + `"`} {
		for _, args := range []string{`{}`, `{"n":9007199254740993,"x":1.0,"e":1e400,"neg":-0}`, `{"s":"\u00e9é\ud800<>&\u2028","\u0061":[[],{}]}`, `{"a":1,"a":2}`} {
			want := `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"echo"}],"structuredContent":` + args + `}}`
			if got := g.post(s, callBody(id, "read", `,"arguments":`+args)).all(); got != want {
				t.Errorf("legacy:\n got %s\nwant %s", got, want)
			}
			r := g.modern(id, "tools/call", `"name":"echo","arguments":`+args, "Mcp-Name", "echo")
			if got, want := r.all(), strings.Replace(want, `{"content"`, `{"resultType":"complete","content"`, 1); got != want {
				t.Errorf("modern:\n got %s\nwant %s", got, want)
			}
		}
	}
}

func TestSixteenMiBPass(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	result := `{"content":[{"type":"text","text":"` + strings.Repeat("é", 8<<20) + `"}]}`
	for _, tool := range []string{"hold", "peek"} {
		ch := make(chan string, 1)
		go func() {
			r := g.post(s, callBody("1", tool, ""))
			ch <- r.all()
		}()
		g.finish(tool, result)
		got := <-ch
		if !strings.Contains(got, result) || len(got) > len(result)+512 {
			t.Errorf("%s: %d bytes of %d came", tool, len(got), len(result))
		}
	}
}

// TestResultWithLineEnds: white space of a host's JSON never breaks an event.
func TestResultWithLineEnds(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	r := g.post(s, callBody("1", "hold", ""))
	r.block()
	g.finish("hold", "{\"content\":\r\n[\r],\n\"x\":\"\\n\"}")
	if got, want := field(r.block(), "data"), `{"jsonrpc":"2.0","id":1,"result":{"content":  [ ], "x":"\n"}}`; got != want {
		t.Errorf("event data %q, want %q", got, want)
	}
	r = g.post(s, callBody("2", "hold", ""))
	r.block()
	g.finish("hold", "7")
	if got := field(r.block(), "data"); !strings.Contains(got, `"a2a-bridge/executed":"yes"`) {
		t.Errorf("a result that is no object was answered with %q", got)
	}
}

// TestSlowCallDelaysNobody: while calls run, everything else is answered.
func TestSlowCallDelaysNobody(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s, other := g.session("2025-11-25"), g.session("2025-11-25", "Authorization", "Bearer other")
	slow := g.post(s, callBody("1", "hold", ""))
	slow.block()
	var wg sync.WaitGroup
	for i := range 20 {
		session, auth := s, "Bearer laptop"
		if i%2 == 1 {
			session, auth = other, "Bearer other"
		}
		wg.Go(func() {
			want := fmt.Sprintf(`"structuredContent":{"i":%d}`, i)
			if b := g.post(session, callBody("1", "read", fmt.Sprintf(`,"arguments":{"i":%d}`, i)), "Authorization", auth).all(); !strings.Contains(b, want) {
				t.Errorf("call %d got %s", i, b)
			}
		})
	}
	wg.Wait()
	start := time.Now()
	g.post(s, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).all()
	if d := time.Since(start); d > time.Second {
		t.Errorf("a ping took %v", d)
	}
	g.finish("hold", okResult)
	slow.all()
}

func TestListFollowsTheToken(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	s, narrow := g.session("2025-11-25"), g.session("2025-11-25", "Authorization", "Bearer narrow")
	if b := g.post(s, list).all(); strings.Count(b, `"name"`) != 4 || strings.Count(b, `"readOnlyHint":true`) != 2 {
		t.Errorf("list = %s", b)
	}
	if b := g.post(narrow, list, "Authorization", "Bearer narrow").all(); strings.Count(b, `"name"`) != 1 || !strings.Contains(b, `"read"`) {
		t.Errorf("list of a token with globs = %s", b)
	}
	if b := g.do("POST", "/mcp/app", list, "Mcp-Session-Id", s).StatusCode; b != 404 {
		t.Errorf("the session of main is good at a named host: %d", b)
	}
}

// TestCallersOfBothErasAreSeen: with their token, their client's name and what
// they have open.
func TestCallersOfBothErasAreSeen(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	call := g.post(s, callBody("1", "hold", ""))
	call.block()
	stream := g.do("GET", "/mcp", "", "Mcp-Session-Id", s)
	stream.block()
	g.modern("1", "tools/list", "", "Authorization", "Bearer other").all()
	if g.front.Idle() {
		t.Error("idle with a call and a stream")
	}
	got := g.front.Peers()
	for i := range got {
		if got[i].LastSeen.IsZero() {
			t.Errorf("%s was never seen", got[i].Name)
		}
		got[i].LastSeen = time.Time{}
	}
	want := []mcpfront.Connected{
		{Token: "t_laptop", Name: "laptop", Client: bridge.Client{Name: "old", Version: "1"}, Era: "legacy", Streams: 1, Running: 1},
		{Token: "t_other", Name: "other", Client: bridge.Client{Name: "new", Version: "2"}, Era: "modern"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Peers (-want +got):\n%s", diff)
	}
	c := g.await("hold", running)
	if diff := cmp.Diff(bridge.Ref{Front: "mcp", Session: c.Ref.Session, RPC: json.RawMessage("1"), Revision: "2025-11-25", Token: "t_laptop", Peer: "laptop"}, c.Ref); diff != "" || c.Client.Name != "old" || c.Ref.Session == "" {
		t.Errorf("the call's client is %+v, its ref (-want +got):\n%s", c.Client, diff)
	}
	g.finish("hold", okResult)
	call.all()
	g.front.EndStreams()
	stream.all()
	deadline := time.Now().Add(patience)
	for !g.front.Idle() {
		if time.Now().After(deadline) {
			t.Fatal("not idle although nothing is open")
		}
	}
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	for range 64 {
		g.do("GET", "/mcp", "", "Mcp-Session-Id", g.session("2025-11-25")).block()
	}
	if r := g.do("GET", "/mcp", "", "Mcp-Session-Id", s); r.StatusCode != 405 {
		t.Errorf("one stream too many: %d", r.StatusCode)
	}
	if r := g.modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`); r.StatusCode != 429 {
		t.Errorf("one listen too many: %d", r.StatusCode)
	}
	s = g.session("2025-11-25", "Authorization", "Bearer other")
	g.do("GET", "/mcp", "", "Mcp-Session-Id", s, "Authorization", "Bearer other").block()
}

// TestSessionsOutliveTheDaemon: sessions and event ids made by one front are
// good in the next one with the same key, and in no other.
func TestSessionsOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	hub := newHubFake()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	make1 := func(key byte) *mcpfront.Front {
		f, err := mcpfront.New(mcpfront.Config{Hub: hub, Key: bytes.Repeat([]byte{key}, 32), Body: 1 << 20, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := make1(1)
	session := ask(t, first, initialize("2025-11-25"), "").Header().Get("Mcp-Session-Id")
	for _, tt := range []struct {
		name  string
		front *mcpfront.Front
		after time.Duration
		want  int
	}{
		{"the same", first, 0, 200},
		{"the next", make1(1), 0, 200},
		{"with another key", make1(2), 0, 404},
		{"after a week less a minute", make1(1), 7*24*time.Hour - time.Minute, 200},
		{"after a week and a minute", make1(1), 7*24*time.Hour + time.Minute, 404},
		{"with a clock set back", make1(1), -12 * time.Hour, 200},
	} {
		now = start.Add(tt.after)
		if got := ask(t, tt.front, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session).Code; got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if len(session) > 256 {
		t.Errorf("a session id has %d bytes", len(session))
	}
}

func TestRequestWithoutAPeerIsOurFault(t *testing.T) {
	t.Parallel()
	f := newFront(t, newHubFake())
	w := newRecorder()
	f.ServeHTTP(w, mustRequest(t, "{}"))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d", w.Code)
	}
}

// TestDeadRequestsOfTheBacklogDoNotRun: requests that were sent while the
// daemon was away, by clients that have given up since, are not executed.
func TestDeadRequestsOfTheBacklogDoNotRun(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := callBody("1", "echo", `,"arguments":{},`+meta)
	const n = 32
	var alive net.Conn
	for i := range n {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer laptop\r\nContent-Type: application/json\r\nMcp-Protocol-Version: %s\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: %d\r\n\r\n%s", modern, len(body), body); err != nil {
			t.Fatal(err)
		}
		if alive = conn; i < n-1 {
			_ = conn.Close()
		}
	}
	g := serve(t, newHubFake(), ln, nil)
	resp, err := http.ReadResponse(bufio.NewReader(alive), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the living client got %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	deadline := time.Now().Add(patience)
	for {
		g.hub.mu.Lock()
		seen, ran, open := len(g.hub.calls), 0, 0
		for _, c := range g.hub.calls {
			ran += c.ran
			if !c.state.Final() {
				open++
			}
		}
		g.hub.mu.Unlock()
		if ran > 1 {
			t.Fatalf("%d of %d calls ran", ran, seen)
		}
		if seen == n && open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls came, %d are open", seen, open)
		}
		runtime.Gosched()
	}
}

// TestACallerWhoStopsSendingIsNotToldThatItsCallSucceeded: a closed sending
// half counts as leaving, and an empty 200 would look like a result.
func TestACallerWhoStopsSendingIsNotToldThatItsCallSucceeded(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	session := g.session("2025-11-25")
	body := callBody("1", "hold", "")
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer laptop\r\nMcp-Session-Id: %s\r\n"+
		"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", session, len(body), body)
	g.await("hold", running)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c := g.await("hold", over)
	if c.state != bridge.Cancelled {
		t.Errorf("the call is %s, want cancelled", c.state)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return // closed without an answer is as honest
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		t.Errorf("the caller got status %d without a result", resp.StatusCode)
	}
}
