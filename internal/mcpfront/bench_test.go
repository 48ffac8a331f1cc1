package mcpfront_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkEcho is a call through the socket, with an answer that is plain and
// with one that is primed.
func BenchmarkEcho(b *testing.B) {
	for _, tt := range []struct{ name, tool string }{{"plain", "read"}, {"primed", "echo"}} {
		b.Run(tt.name, func(b *testing.B) { benchmark(b, callBody("1", tt.tool, `,"arguments":{"a":1}`)) })
	}
}

// BenchmarkList is tools/list from its cache.
func BenchmarkList(b *testing.B) { benchmark(b, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`) }

func benchmark(b *testing.B, body string) {
	g := newRig(b)
	s := g.session("2025-11-25")
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, g.url+"/mcp", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer laptop"}, "Accept": {both}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {s}}
		resp, err := g.client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		_ = resp.Body.Close()
		g.hub.forget()
	}
}

// forget drops what the fake remembers of calls.
func (h *hubFake) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = nil
	clear(h.delivered)
}
