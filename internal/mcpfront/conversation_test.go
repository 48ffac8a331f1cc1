package mcpfront_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/mcpfront"
)

var update = flag.Bool("update", false, "rewrite the server's side of testdata/*.txtar")

// TestConversations plays testdata/*.txtar against the real handler behind a
// real socket. "client" sections are steps, "server" sections what they show.
//
// A step is one of
//
//	POST /mcp            a request; headers, an empty line, the body
//	start NAME N POST …  the same, left open after N events or comments
//	async NAME POST …    the same, without waiting for anything
//	join NAME N          waits for its headers and N events
//	read NAME N          N more events; without N to the end
//	close NAME           the client closes its connection
//	attach, detach       a host
//	finish TOOL RESULT   the newest call of TOOL ends
//	progress TOOL TEXT   it reports; also: approval TOOL pending|resolved
//	end TOOL KIND        it ends otherwise
//	await TOOL STATE     waits for it; shows how it stands
//	tools NAME…          another catalogue
//	end-streams, cut TOKEN
//	gone                 waits until no answer is open
//
// $session is the id of the last initialize, $event the newest event id.
func TestConversations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := &conversation{rig: newRig(t), open: map[string]*reply{},
				async: map[string]chan *reply{}, leave: map[string]context.CancelFunc{}}
			out := &txtar.Archive{Comment: archive.Comment}
			var want string
			for i, f := range archive.Files {
				if f.Name != "client" {
					continue
				}
				got := c.step(string(f.Data))
				out.Files = append(out.Files, f)
				if got != "" {
					out.Files = append(out.Files, txtar.File{Name: "server", Data: []byte(got)})
				}
				want = ""
				if i+1 < len(archive.Files) && archive.Files[i+1].Name == "server" {
					want = string(archive.Files[i+1].Data)
				}
				if diff := cmp.Diff(want, got); diff != "" && !*update {
					t.Fatalf("after %.200q (-want +got):\n%s", f.Data, diff)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type conversation struct {
	*rig
	session string
	event   string
	open    map[string]*reply
	async   map[string]chan *reply
	leave   map[string]context.CancelFunc
}

func (c *conversation) step(script string) string {
	c.t.Helper()
	line, rest, _ := strings.Cut(script, "\n")
	words := strings.Fields(line)
	tail := func(n int) string { return strings.Join(words[n:], " ") }
	switch words[0] {
	case "start":
		n, err := strconv.Atoi(words[2])
		if err != nil {
			c.t.Fatal(err)
		}
		r := c.send(words[3], words[4], rest)
		c.open[words[1]] = r
		return c.head(r) + c.blocks(r, n)
	case "async":
		ch := make(chan *reply, 1)
		ctx, cancel := context.WithCancel(c.t.Context())
		c.async[words[1]], c.leave[words[1]] = ch, cancel
		method, path, header, body := c.request(words[2], words[3], rest)
		go func() {
			r, err := c.try(ctx, method, path, body, header...)
			if err == nil {
				ch <- r
			}
			close(ch)
		}()
	case "join":
		n, _ := strconv.Atoi(words[2])
		r := <-c.async[words[1]]
		if r == nil {
			c.t.Fatalf("no answer for %s", words[1])
		}
		c.open[words[1]] = r
		return c.head(r) + c.blocks(r, n)
	case "read":
		r := c.open[words[1]]
		if len(words) > 2 {
			n, _ := strconv.Atoi(words[2])
			return c.blocks(r, n)
		}
		return c.mask(r.all()) + "(end)\n"
	case "close":
		if leave := c.leave[words[1]]; leave != nil {
			leave()
			break
		}
		c.open[words[1]].close()
	case "attach", "detach":
		c.hub.attach(words[0] == "attach")
	case "finish":
		c.finish(words[1], tail(2))
	case "progress":
		c.await(words[1], running).event(bridge.Event{Kind: bridge.EventProgress, Text: tail(2)})
	case "approval":
		c.await(words[1], running).event(bridge.Event{Kind: bridge.EventKind("approval " + words[2])})
	case "end":
		c.await(words[1], running).end(bridge.Outcome{State: bridge.Unknown, Kind: bridge.Kind(tail(2))})
	case "await":
		fc := c.await(words[1], func(fc *callFake) bool { return fc.state == bridge.State(tail(2)) })
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		return fmt.Sprintf("%s: %s, kind %q, ran %d\n", words[1], fc.state, fc.outcome.Kind, fc.ran)
	case "tools":
		var tools []bridge.Tool
		for _, name := range words[1:] {
			tools = append(tools, tool(name, ""))
		}
		c.hub.setTools("", tools...)
	case "gone":
		deadline := time.Now().Add(patience)
		for slices.ContainsFunc(c.front.Peers(), func(p mcpfront.Connected) bool { return p.Running > 0 }) {
			if time.Now().After(deadline) {
				c.t.Fatal("an answer is still open")
			}
			runtime.Gosched()
		}
	case "end-streams":
		c.front.EndStreams()
	case "cut":
		c.front.CutToken(words[1])
	default:
		r := c.send(words[0], words[1], rest)
		return c.head(r) + c.mask(r.all()) + "\n"
	}
	return ""
}

// send makes the request of a step.
func (c *conversation) send(method, path, rest string) *reply {
	c.t.Helper()
	method, path, header, body := c.request(method, path, rest)
	r := c.do(method, path, body, header...)
	if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return r
}

func (c *conversation) request(method, path, rest string) (string, string, []string, string) {
	rest = strings.NewReplacer("$session", c.session, "$event", c.event).Replace(rest)
	head, body, _ := strings.Cut(rest, "\n\n")
	if strings.HasPrefix(rest, "\n") {
		head, body = "", rest[1:]
	}
	var header []string
	for line := range strings.Lines(head) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			header = append(header, name, strings.TrimSpace(value))
		}
	}
	return method, path, header, strings.TrimSuffix(body, "\n")
}

// head shows the status and what matters of the headers.
func (c *conversation) head(r *reply) string {
	s := fmt.Sprintf("%d %s\n", r.StatusCode, http.StatusText(r.StatusCode))
	names := []string{"Allow", "Cache-Control", "Content-Type", "Mcp-Session-Id", "Retry-After", "X-Accel-Buffering"}
	for _, name := range names {
		if v := r.Header.Get(name); v != "" {
			s += name + ": " + v + "\n"
		}
	}
	return c.mask(s) + "\n"
}

func (c *conversation) blocks(r *reply, n int) string {
	var s string
	for range n {
		s += r.block()
	}
	return c.mask(s)
}

var (
	callID  = regexp.MustCompile(`c_[a-z0-9]{10}`)
	eventID = regexp.MustCompile(`(?m)^id: (\S+)$`)
)

// mask replaces what differs from run to run.
func (c *conversation) mask(s string) string {
	if m := eventID.FindAllStringSubmatch(s, -1); m != nil {
		c.event = m[len(m)-1][1]
	}
	s = eventID.ReplaceAllString(s, "id: $$event")
	s = callID.ReplaceAllString(s, "c_0000000000")
	if c.session != "" {
		s = strings.ReplaceAll(s, c.session, "$session")
	}
	return s
}

// TestConversationsCoverEveryKind makes sure that the table of outcomes has a
// conversation for each row.
func TestConversationsCoverEveryKind(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/outcomes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var asked []bridge.Kind
	for _, f := range archive.Files {
		if f.Name != "client" {
			continue
		}
		_, body, _ := strings.Cut(string(f.Data), "\n\n")
		var m struct{ Params struct{ Name string } }
		if json.Unmarshal([]byte(body), &m) == nil {
			if kind, ok := strings.CutPrefix(m.Params.Name, "end "); ok {
				asked = append(asked, bridge.Kind(kind))
			}
		}
	}
	for _, k := range bridge.Kinds() {
		if !slices.Contains(asked, k) {
			t.Errorf("testdata/outcomes.txtar has no call that ends with %q", k)
		}
	}
}
