package hostlink_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = time.Minute

// line is one line of a transcript.
type line struct {
	Note  string          `json:"note"`
	From  string          `json:"from"`
	Frame json.RawMessage `json:"frame"`
	Raw   *string         `json:"raw"`
	Long  int             `json:"long"`
	End   bool            `json:"end"`
	Drop  bool            `json:"drop"`
	Host  string          `json:"host"`
}

func readTranscript(t *testing.T, path string) []line {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	for {
		var l line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatalf("%s: line %d: %v", path, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
}

func transcripts(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/transcripts/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	return paths
}

func TestHostFollowsTheTranscripts(t *testing.T) {
	t.Parallel()
	for _, path := range transcripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl"), func(t *testing.T) {
			t.Parallel()
			p := &player{t: t, host: startScripted(t), bound: map[string]any{}}
			for i, l := range readTranscript(t, path) {
				p.at = fmt.Sprintf("%s:%d", path, i+1)
				p.play(l)
			}
		})
	}
}

// player plays the daemon.
type player struct {
	t     *testing.T
	at    string
	host  *scripted
	conn  net.Conn
	in    *bufio.Reader
	bound map[string]any
}

func (p *player) play(l line) {
	p.t.Helper()
	switch {
	case l.Drop:
		p.connect()
		_ = p.conn.Close()
		p.conn = nil
	case l.Host != "":
		p.host.act(l.Host)
	case l.From == "host" && l.End:
		for {
			if _, err := p.in.ReadBytes('\n'); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				p.t.Fatalf("%s: the host has not ended the link: %v", p.at, err)
			}
		}
	case l.From == "host":
		p.check(l.Frame)
	case l.Frame != nil:
		p.send(encode(p.t, p.fill(decode(p.t, l.Frame))))
	case l.Raw != nil:
		p.send([]byte(*l.Raw))
	case l.Long > 0:
		p.send(bytes.Repeat([]byte("x"), l.Long))
	}
}

func (p *player) connect() {
	p.t.Helper()
	if p.conn != nil {
		return
	}
	select {
	case p.conn = <-p.host.dialled:
	case <-time.After(patience):
		p.t.Fatalf("%s: the host does not dial", p.at)
	}
	_ = p.conn.SetDeadline(time.Now().Add(patience))
	p.in = bufio.NewReader(p.conn)
	conn := p.conn
	p.t.Cleanup(func() { _ = conn.Close() })
}

func (p *player) send(b []byte) {
	p.t.Helper()
	p.connect()
	if _, err := p.conn.Write(append(b, '\n')); err != nil {
		p.t.Fatalf("%s: send: %v", p.at, err)
	}
}

func (p *player) check(want json.RawMessage) {
	p.t.Helper()
	p.connect()
	for {
		got, err := p.in.ReadBytes('\n')
		if err != nil {
			p.t.Fatalf("%s: no frame where %s was due: %v", p.at, want, err)
		}
		if bytes.Contains(got, []byte(`"method":"ping"`)) && !bytes.Contains(want, []byte(`"method":"ping"`)) {
			continue
		}
		filled := p.match(decode(p.t, want), decode(p.t, got))
		if diff := cmp.Diff(filled, decode(p.t, got)); diff != "" {
			p.t.Fatalf("%s: frame (-want +got):\n%s", p.at, diff)
		}
		return
	}
}

// match replaces the wildcards of want by what got has in their places, and
// takes over fields that want does not name.
func (p *player) match(want, got any) any {
	switch w := want.(type) {
	case string:
		name, _, binds := strings.Cut(w, "=")
		switch {
		case name == "$any":
			if got == nil {
				return w
			}
			return got
		case isVariable(name) && binds:
			p.bound[name] = got
			return got
		case isVariable(name):
			return p.bound[name]
		}
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			out := maps.Clone(g)
			for k, v := range w {
				out[k] = p.match(v, g[k])
			}
			return out
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			out := make([]any, len(w))
			for i := range w {
				out[i] = p.match(w[i], g[i])
			}
			return out
		}
	}
	return want
}

// fill replaces the wildcards of a frame that is sent.
func (p *player) fill(v any) any {
	switch v := v.(type) {
	case string:
		name, text, has := strings.Cut(v, "=")
		if name != "$any" && !isVariable(name) {
			return v
		}
		if !has {
			return p.bound[name]
		}
		var value any = text
		if d := json.NewDecoder(strings.NewReader(text)); json.Valid([]byte(text)) {
			d.UseNumber()
			_ = d.Decode(&value) // it is valid
		}
		if isVariable(name) {
			p.bound[name] = value
		}
		return value
	case map[string]any:
		for k := range v {
			v[k] = p.fill(v[k])
		}
	case []any:
		for i := range v {
			v[i] = p.fill(v[i])
		}
	}
	return v
}

func isVariable(s string) bool { return len(s) == 2 && s[0] == '$' && s[1] >= '1' && s[1] <= '9' }

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %q: %v", raw, err)
	}
	return v
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	// The order that the protocol asks for; encoding/json sorts.
	m, _ := v.(map[string]any)
	for _, key := range []string{"result", "error", "params"} {
		if body, ok := m[key]; ok && m["id"] != nil {
			inner, _ := json.Marshal(body)
			method := ""
			if name, ok := m["method"].(string); ok {
				method = fmt.Sprintf("%q:%q,", "method", name)
			}
			return fmt.Appendf(nil, `{"id":%v,%s%q:%s}`, m["id"], method, key, inner)
		}
	}
	return raw
}

// scripted is the host of the transcripts.
type scripted struct {
	host    *hostlink.Host
	dialled chan net.Conn
	finish  chan struct{}
	owner   chan string
	stop    context.CancelFunc
	gone    <-chan struct{} // closed when the host is to end
	welcome chan hostlink.Welcome
}

func scriptedTools(names ...string) []bridge.Tool {
	var tools []bridge.Tool
	for _, name := range names {
		tools = append(tools, bridge.Tool{Name: name, Source: "builtin",
			Definition: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)})
	}
	return tools
}

func startScripted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{
		dialled: make(chan net.Conn), finish: make(chan struct{}), owner: make(chan string),
		welcome: make(chan hostlink.Welcome, 16),
	}
	s.host = hostlink.NewHost(hostlink.HostConfig{
		Dial: func(ctx context.Context) (net.Conn, error) {
			ours, theirs := socketPair(t)
			select {
			case s.dialled <- theirs:
				return ours, nil
			case <-ctx.Done():
				_ = ours.Close()
				_ = theirs.Close()
				return nil, ctx.Err()
			}
		},
		Hello:     hostlink.Hello{Kind: "test", Version: "1.0.0", Session: hostlink.Session{ID: "s1", Name: "one"}},
		Run:       s.run,
		OnWelcome: func(w hostlink.Welcome) { s.welcome <- w },
		Backoff:   hostlink.Backoff{First: time.Millisecond, Max: 10 * time.Millisecond},
	})
	s.host.SetTools(scriptedTools("echo", "slow", "ask", "boom"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s.stop, s.gone = cancel, ctx.Done()
	go func() {
		defer close(ended)
		if err := s.host.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

func (s *scripted) run(ctx context.Context, call hostlink.CallParams, emit hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	switch call.Tool {
	case "echo":
		var args struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(call.Args, &args); err != nil {
			return nil, &hostlink.Error{Kind: hostlink.KindBadArguments, Message: "text is not a string", Executed: bridge.ExecutedNo}
		}
		return textResult(args.Text), nil
	case "slow":
		emit.Progress("working")
		select {
		case <-s.finish:
			return textResult("done"), nil
		case <-ctx.Done():
			return nil, &hostlink.Error{Kind: hostlink.KindCancelled, Message: "aborted", Executed: bridge.ExecutedUnknown}
		}
	case "ask":
		emit.Approval(hostlink.ApprovalPending)
		select {
		case answer := <-s.owner:
			emit.Approval(answer)
			if answer == hostlink.ApprovalDenied {
				return nil, &hostlink.Error{Kind: hostlink.KindDenied, Message: "denied", Executed: bridge.ExecutedNo}
			}
		case <-s.gone: // not ctx: it does not heed its signal
		}
		return textResult("approved"), nil
	default:
		return json.RawMessage(`{"content":[{"type":"text","text":"boom"}],"isError":true}`), nil
	}
}

func (s *scripted) act(action string) {
	switch action {
	case "finish":
		s.finish <- struct{}{}
	case "approve":
		s.owner <- hostlink.ApprovalApproved
	case "deny":
		s.owner <- hostlink.ApprovalDenied
	case "notReady":
		s.host.SetState(hostlink.StateNotReady, hostlink.Session{ID: "s1", Name: "one"})
	case "tools":
		s.host.SetTools(scriptedTools("echo", "slow", "ask"))
	case "close":
		s.stop()
	}
}

func textResult(text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
	return raw
}

// TestTranscriptsFitTheStructs reads every frame of the transcripts into the
// Go struct of its method and finds no field that the struct lacks.
func TestTranscriptsFitTheStructs(t *testing.T) {
	t.Parallel()
	params := map[string]any{
		"hello": hostlink.Hello{}, "tools": hostlink.Tools{}, "state": hostlink.StateNotice{}, "bye": hostlink.Bye{}, "late": hostlink.Late{},
		"accepted": struct{}{}, "progress": hostlink.Progress{}, "approval": hostlink.Approval{}, "ping": struct{}{}, "fault": hostlink.Fault{},
		"call": hostlink.CallParams{}, "cancel": hostlink.Cancel{}, "ack": hostlink.Ack{}, "you": hostlink.You{},
	}
	for _, path := range transcripts(t) {
		p := &player{t: t, bound: map[string]any{}}
		for i, l := range readTranscript(t, path) {
			if l.Frame == nil {
				continue
			}
			var f struct {
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
				Error  json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(encode(t, p.fill(decode(t, l.Frame))), &f); err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			var into any
			raw := f.Params
			switch known, ok := params[f.Method]; {
			case f.Error != nil:
				into, raw = &hostlink.Error{}, f.Error
			case ok:
				into = reflect.New(reflect.TypeOf(known)).Interface()
			default:
				continue
			}
			d := json.NewDecoder(bytes.NewReader(raw))
			d.DisallowUnknownFields()
			if err := d.Decode(into); err != nil {
				t.Errorf("%s:%d: %s: %v", path, i+1, f.Method, err)
			}
		}
	}
}
