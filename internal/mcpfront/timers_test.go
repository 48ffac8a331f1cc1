package mcpfront_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// pipes is a listener whose connections are in memory, so that a bubble's
// clock governs them.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

// bubble runs a test whose time stands still until everything waits.
func bubble(t *testing.T, test func(*rig, *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		test(serve(t, newHubFake(), p, p.dial), p)
	})
}

// went runs f and gives how long it took.
func went(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start).Truncate(time.Millisecond)
}

func TestQueuedCallIsSilentForTenSecondsThenAStream(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *rig, _ *pipes) {
		s := g.session("2025-11-25")
		g.hub.attach(false)
		var r *reply
		if d := went(func() { r = g.post(s, callBody("1", "hold", "")) }); d != 10*time.Second {
			t.Errorf("headers came after %v", d)
		}
		for i := range 3 {
			if d := went(func() {
				if b := r.block(); b != ":\n\n" {
					t.Errorf("comment %d = %q", i, b)
				}
			}); i > 0 && d != 10*time.Second {
				t.Errorf("comment %d after %v", i, d)
			}
		}
		g.hub.attach(true)
		if b := r.block(); field(b, "id") == "" || field(b, "retry") != "1000" {
			t.Errorf("at hand-over came %q", b)
		}
		g.finish("hold", okResult)
		if b := r.all(); !strings.Contains(b, okResult) {
			t.Errorf("the answer is %q", b)
		}
	})
}

func TestProgressTokenKeepsACallAlive(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *rig, _ *pipes) {
		s := g.session("2025-03-26")
		g.hub.attach(false)
		r := g.post(s, callBody("1", "hold", `,"_meta":{"progressToken":"t"}`))
		note := func(n int, message string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":%d%s}}`, n, message)
		}
		check := func(want string) {
			t.Helper()
			if got := field(r.block(), "data"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		check(note(1, `,"message":"Waiting for a session to take the call."`))
		g.hub.attach(true)
		g.await("hold", running)
		check(note(2, ""))
		g.await("hold", running).event(bridge.Event{Kind: bridge.EventApprovalPending})
		check(note(3, `,"message":"Waiting for the owner's approval."`))
		check(note(4, `,"message":"Waiting for the owner's approval."`))
		g.finish("hold", okResult)
		if b := r.all(); !strings.HasSuffix(b, okResult+"}\n\n") {
			t.Errorf("the answer is %q", b)
		}
	})
}

func TestClientWithoutStreamsGetsNothingUntilTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *rig, _ *pipes) {
		s := g.session("2025-11-25")
		time.AfterFunc(5*time.Minute, func() { g.finish("hold", okResult) })
		r := g.post(s, callBody("1", "hold", `,"_meta":{"progressToken":"t"}`), "Accept", "application/json")
		if got, want := r.all(), `{"jsonrpc":"2.0","id":1,"result":`+okResult+`}`; got != want || r.Header.Get("Content-Length") == "" {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestClosedRequest: what it means when a client closes a request whose answer
// it could resume.
func TestClosedRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(g *rig, s string, call, stream *reply) // at the moment of the close
		feed bool
		want time.Duration // until the call is cancelled; 0: never
	}{
		{"its own stream stays open", func(_ *rig, _ string, call, _ *reply) { call.close() }, true, 1500 * time.Millisecond},
		{"everything went together", func(_ *rig, _ string, call, stream *reply) { call.close(); stream.close() }, true, 15 * time.Second},
		{"the stream went first", func(_ *rig, _ string, call, stream *reply) {
			stream.close()
			synctest.Wait()
			call.close()
		}, true, 15 * time.Second},
		{"the stream went a second later", func(_ *rig, _ string, call, stream *reply) {
			call.close()
			time.AfterFunc(time.Second, stream.close)
		}, true, 15 * time.Second},
		{"the stream went and another came", func(g *rig, s string, call, stream *reply) {
			call.close()
			stream.close()
			time.AfterFunc(time.Second, func() { g.do("GET", "/mcp", "", "Mcp-Session-Id", s).block() })
		}, true, 15 * time.Second},
		{"it never had a stream", func(_ *rig, _ string, call, _ *reply) { call.close() }, false, 15 * time.Second},
		{"it came back", func(g *rig, s string, call, _ *reply) {
			id := field(call.first, "id")
			call.close()
			time.AfterFunc(1400*time.Millisecond, func() {
				r := g.do("GET", "/mcp", "", "Mcp-Session-Id", s, "Last-Event-ID", id)
				go func() { _, _ = io.Copy(io.Discard, r.lines) }()
			})
		}, true, 0},
		{"it came back and left again", func(g *rig, s string, call, _ *reply) {
			id := field(call.first, "id")
			call.close()
			time.AfterFunc(time.Second, func() {
				r := g.do("GET", "/mcp", "", "Mcp-Session-Id", s, "Last-Event-ID", id)
				r.block()
				r.close()
			})
		}, true, 2500 * time.Millisecond},
		{"it cancelled at once", func(g *rig, s string, call, _ *reply) {
			call.close()
			g.post(s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).all()
		}, true, time.Millisecond},
		{"we ended it", func(g *rig, _ string, call, _ *reply) { g.front.EndStreams(); call.close() }, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(g *rig, _ *pipes) {
				s := g.session("2025-11-25")
				var stream *reply
				if tt.feed {
					stream = g.do("GET", "/mcp", "", "Mcp-Session-Id", s)
					stream.block()
				}
				call := g.post(s, callBody("1", "hold", ""))
				call.first = call.block()
				if stream != nil {
					go func() { _, _ = io.Copy(io.Discard, stream.lines) }()
				}
				fc := g.await("hold", running)
				tt.do(g, s, call, stream)
				d := went(func() {
					select {
					case <-fc.over:
					case <-time.After(time.Hour):
					}
				})
				if tt.want == 0 {
					if d != time.Hour {
						t.Errorf("cancelled after %v: %+v", d, g.outcome(fc))
					}
					return
				}
				if d > tt.want || d < tt.want-time.Millisecond {
					t.Errorf("cancelled after %v, want %v", d, tt.want)
				}
				if !g.front.Idle() && !tt.feed {
					t.Error("something is left open")
				}
			})
		})
	}
}

func TestProgressIsMergedAndTheLastIsNeverDropped(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *rig, _ *pipes) {
		s := g.session("2025-11-25")
		r := g.post(s, callBody("1", "hold", `,"_meta":{"progressToken":1}`))
		r.block()
		fc := g.await("hold", running)
		var want strings.Builder
		for i := range 1000 {
			line := fmt.Sprintf("line %d é\n", i)
			want.WriteString(line)
			time.AfterFunc(time.Duration(i)*time.Millisecond, func() {
				fc.event(bridge.Event{Kind: bridge.EventProgress, Text: line})
			})
		}
		time.AfterFunc(time.Second, func() {
			synctest.Wait()
			fc.event(bridge.Event{Kind: bridge.EventProgress, Text: "last"})
			g.finish("hold", okResult)
		})
		want.WriteString("last")
		blocks := strings.Split(strings.TrimSuffix(r.all(), "\n\n"), "\n\n")
		if len(blocks) > 8 {
			t.Errorf("%d events in a second", len(blocks))
		}
		var got strings.Builder
		for i, b := range blocks[:len(blocks)-1] {
			n, message := progressOf(t, field(b, "data"))
			if n != i+1 || len(message) > 4<<10 {
				t.Errorf("notification %d counts %d, with %d bytes", i, n, len(message))
			}
			got.WriteString(message)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
		if last := blocks[len(blocks)-1]; !strings.Contains(last, okResult) {
			t.Errorf("the last event is %q", last)
		}
	})
}

func TestProgressCountsOnAfterAResume(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *rig, _ *pipes) {
		s := g.session("2025-11-25")
		r := g.post(s, callBody("1", "hold", `,"_meta":{"progressToken":1}`))
		id := field(r.block(), "id")
		fc := g.await("hold", running)
		last := 0
		for range 20 {
			fc.event(bridge.Event{Kind: bridge.EventProgress, Text: "x"})
			n, _ := progressOf(t, field(r.block(), "data"))
			if n <= last {
				t.Fatalf("progress %d after %d", n, last)
			}
			if last = n; n%3 == 0 {
				r.close()
				<-time.After(time.Second) // as the stream told it to
				r = g.do("GET", "/mcp", "", "Mcp-Session-Id", s, "Last-Event-ID", id)
				next := field(r.block(), "id")
				if next == id || next == "" {
					t.Fatalf("the stream was primed again with %q, as before", next)
				}
				id = next
			}
		}
	})
}

func TestSessionStreamIsKeptAliveUntilItsTokenExpires(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *rig, _ *pipes) {
		s := g.session("2025-11-25", "Authorization", "Bearer short")
		r := g.do("GET", "/mcp", "", "Mcp-Session-Id", s, "Authorization", "Bearer short")
		r.block()
		var got string
		if d := went(func() { got = r.all() }); d != 30*time.Second || got != ":\n\n:\n\n" {
			t.Errorf("the stream ended after %v with %q", d, got)
		}
	})
}

// TestClientThatReadsNothingHoldsNobodyUp: events never wait for a client, and
// one that takes nothing is treated as gone.
func TestClientThatReadsNothingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-03-26", "2025-11-25"} {
		bubble(t, func(g *rig, p *pipes) {
			s := g.session(revision)
			conn, err := p.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			body := callBody("1", "hold", `,"_meta":{"progressToken":1}`)
			if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer laptop\r\nAccept: %s\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
				both, s, len(body), body); err != nil {
				t.Fatal(err)
			}
			if revision == "2025-11-25" { // it reads the headers and the first event, and then nothing
				if _, err := io.ReadAtLeast(conn, make([]byte, 4096), 300); err != nil {
					t.Fatal(err)
				}
			}
			fc := g.await("hold", running)
			if d := went(func() {
				for range 10_000 {
					fc.event(bridge.Event{Kind: bridge.EventProgress, Text: "some output\n"})
				}
			}); d != 0 {
				t.Errorf("events waited for %v", d)
			}
			want := 30 * time.Second
			if revision == "2025-11-25" {
				want += 15 * time.Second
			}
			if d := went(func() { <-fc.over }); d.Truncate(time.Second) != want || g.outcome(fc).Kind != bridge.CallerGone {
				t.Errorf("the call ended after %v: %+v, want %v", d, g.outcome(fc), want)
			}
		})
	}
}

func TestBodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	bubble(t, func(_ *rig, p *pipes) {
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		var b []byte
		if d := went(func() { b, _ = io.ReadAll(conn) }); d != time.Minute || !strings.HasPrefix(string(b), "HTTP/1.1 400") {
			t.Errorf("after %v: %q", d, b)
		}
	})
}

// TestCancelAroundTheEnd: whatever comes first, a call ends once, and its
// caller and the hub agree on how.
func TestCancelAroundTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *rig, _ *pipes) {
		s := g.session("2025-11-25")
		seen := map[bridge.State]int{}
		for i := range 500 {
			tool := []string{"hold", "peek"}[i%2]
			id := fmt.Sprint(i)
			time.AfterFunc(25*time.Millisecond, func() {
				if c := g.newest(tool); c != nil {
					c.end(bridge.Outcome{State: bridge.Done, Executed: bridge.ExecutedYes, Result: []byte(okResult)})
				}
			})
			for range 2 {
				time.AfterFunc(time.Duration(i%51)*time.Millisecond, func() {
					g.post(s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`).all()
				})
			}
			body := g.post(s, callBody(id, tool, "")).all()
			fc := g.await(tool, over)
			o := g.outcome(fc)
			seen[o.State]++
			answers := strings.Count(body, `"id":`+id+`,"result"`)
			if want := map[bool]int{true: 1}[o.State == bridge.Done]; answers != want {
				t.Fatalf("call %s ended as %s, with %d answers: %q", id, o.State, answers, body)
			}
			synctest.Wait()
		}
		if seen[bridge.Done] == 0 || seen[bridge.Cancelled] == 0 {
			t.Errorf("the race was none: %v", seen)
		}
	})
}

// newest is the newest call of a tool, whatever its state.
func (g *rig) newest(tool string) *callFake {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	return g.hub.latest(tool)
}
