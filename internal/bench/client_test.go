package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// Protocol eras of a client.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// maxClients is how many connections the transport keeps open.
const maxClients = 64

// target is one side of a comparison: an address and how to speak to it.
type target struct {
	http   *http.Client
	url    string
	header http.Header
	era    string
}

func newTarget(url, token, era string) *target {
	h := http.Header{}
	h.Set("Authorization", "Bearer "+token)
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("Mcp-Protocol-Version", era)
	return &target{url: url, header: h, era: era,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxClients, DisableCompression: true}}}
}

// connect begins a session where the era has them.
func (s *target) connect(t testing.TB) *target {
	t.Helper()
	if s.era == modern {
		return s
	}
	hello := s.request(1, "initialize", "", map[string]any{
		"protocolVersion": s.era, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}})
	_, header, err := hello.send(t.Context())
	if err != nil {
		t.Fatalf("initialize at %s: %v", s.url, err)
	}
	if id := header.Get("Mcp-Session-Id"); id != "" {
		s.header.Set("Mcp-Session-Id", id)
	}
	done := s.request(0, "notifications/initialized", "", nil)
	if _, _, err := done.send(t.Context()); err != nil {
		t.Fatalf("initialized at %s: %v", s.url, err)
	}
	return s
}

// request is one prepared POST.
type request struct {
	on     *target
	header http.Header
	body   []byte
	want   []byte // what a good answer contains
}

// request prepares a method; id 0 makes it a notification.
func (s *target) request(id int, method, tool string, params map[string]any) request {
	m := map[string]any{"jsonrpc": "2.0", "method": method}
	if id != 0 {
		m["id"] = id
	}
	header := s.header
	if s.era == modern {
		header = header.Clone()
		header.Set("Mcp-Method", method)
		if tool != "" {
			header.Set("Mcp-Name", tool)
		}
		if params == nil {
			params = map[string]any{}
		}
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    modern,
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "bench", "version": "1"},
		}
	}
	if params != nil {
		m["params"] = params
	}
	body, err := json.Marshal(m)
	if err != nil {
		panic(err) // built from constants
	}
	return request{on: s, header: header, body: body}
}

// call prepares tools/call; a good answer contains want.
func (s *target) call(id int, tool string, args map[string]any, want string) request {
	r := s.request(id, "tools/call", tool, map[string]any{"name": tool, "arguments": args})
	r.want = []byte(want)
	return r
}

// list prepares tools/list.
func (s *target) list(id int, want string) request {
	r := s.request(id, "tools/list", "", nil)
	r.want = []byte(want)
	return r
}

func (r request) send(ctx context.Context) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.on.url, bytes.NewReader(r.body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = r.header
	resp, err := r.on.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if resp.ContentLength > 0 {
		body.Grow(int(resp.ContentLength) + bytes.MinRead)
	}
	if _, err := io.Copy(&body, resp.Body); err != nil {
		return nil, nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, nil, fmt.Errorf("%s: %.300s", resp.Status, body.Bytes())
	}
	return body.Bytes(), resp.Header, nil
}

// do sends it and looks whether the answer is a good one. The look is the same for both sides, and bounded: only the
// head and the tail of a large answer are searched.
func (r request) do(ctx context.Context) error {
	body, _, err := r.send(ctx)
	if err != nil {
		return err
	}
	const edge = 2 << 10
	head, tail := body[:min(len(body), edge)], body[max(0, len(body)-edge):]
	if bytes.Contains(head, []byte(`"isError":true`)) || !bytes.Contains(head, r.want) && !bytes.Contains(tail, r.want) {
		return fmt.Errorf("an answer without %s: %.300s", r.want, body)
	}
	return nil
}

// until repeats a request while the other side starts up.
func (r request) until(t testing.TB, what string) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("the last answer: %v", last)
		}
	}()
	bridgetest.Eventually(t, what, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		last = r.do(ctx)
		return last == nil
	})
}
