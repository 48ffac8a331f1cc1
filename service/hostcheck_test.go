package service

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/config"
)

func TestOnlyKnownNamesAreAnswered(t *testing.T) {
	t.Parallel()
	n := newNames([]string{"bridge.example", "Other.Example:8443"}, []string{"https://ui.example"}, "https://public.example/x")
	for _, tc := range []struct {
		name, host, origin string
		want               string // part of the refusal; empty: admitted
	}{
		{name: "loopback with our port", host: "127.0.0.1:7717"},
		{name: "loopback without a port", host: "127.0.0.1"},
		{name: "another loopback address", host: "127.8.9.1:1"},
		{name: "a tunnel's port", host: "localhost:9000"},
		{name: "upper case", host: "LOCALHOST"},
		{name: "a trailing dot", host: "localhost.:80"},
		{name: "IPv6 with a port", host: "[::1]:1"},
		{name: "IPv6 without a port", host: "[::1]"},
		{name: "allowed on any port", host: "bridge.example:1234"},
		{name: "allowed with its port", host: "other.example:8443"},
		{name: "allowed with another port", host: "other.example:1", want: "http.allowed_hosts"},
		{name: "the public name", host: "public.example"},
		{name: "a foreign name", host: "evil.example", want: "http.allowed_hosts"},
		{name: "a name that begins like ours", host: "localhost.evil.example", want: "http.allowed_hosts"},
		{name: "an address that looks like loopback", host: "127.0.0.1.evil.example", want: "http.allowed_hosts"},
		{name: "a private address", host: "192.168.1.5:7717", want: "http.allowed_hosts"},
		{name: "no name at all", host: "", want: "http.allowed_hosts"},
		{name: "a local page", host: "localhost", origin: "http://localhost:3000"},
		{name: "an allowed page", host: "localhost", origin: "https://UI.example"},
		{name: "a foreign page", host: "localhost", origin: "https://evil.example", want: "http.allowed_origins"},
		{name: "a page without an origin", host: "localhost", origin: "null", want: "http.allowed_origins"},
		{name: "a local file", host: "localhost", origin: "file://", want: "http.allowed_origins"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.Host = tc.host
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
			got := n.refusal(r)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("refusal(host %q, origin %q) = %q, want %q in it", tc.host, tc.origin, got, tc.want)
			}
		})
	}
}

func TestRoutesAreFoundBeforeAnybodyIsAskedWhoTheyAre(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path, state string
		code                int
		body                string
	}{
		{"POST", "/", healthOK, 401, ""},
		{"POST", "/mcp", healthOK, 401, ""},
		{"GET", "/mcp/docs", healthOK, 401, ""},
		{"POST", "/mcp/", healthOK, 404, ""},
		{"POST", "/mcp/a/b", healthOK, 404, ""},
		{"POST", "/mcp/../x", healthOK, 404, ""},
		{"POST", "/MCP", healthOK, 404, ""},
		{"GET", "/.well-known/oauth-protected-resource", healthOK, 404, ""},
		{"GET", "/.well-known/oauth-protected-resource/mcp", healthOK, 404, ""},
		{"GET", "/.well-known/oauth-authorization-server", healthOK, 404, ""},
		{"GET", "/.well-known/openid-configuration", healthOK, 404, ""},
		{"POST", "/register", healthOK, 404, ""},
		{"GET", "/metrics", healthOK, 404, ""},
		{"GET", "/v1/status", healthOK, 404, ""},
		{"GET", "/healthz", healthOK, 200, "ok\n"},
		{"HEAD", "/healthz", healthOK, 200, "ok\n"},
		{"POST", "/healthz", healthOK, 405, ""},
		{"GET", "/healthz", healthConfig, 503, "config\n"},
		{"GET", "/healthz", healthStopping, 503, "stopping\n"},
		{"POST", "/mcp", healthConfig, 503, brokenText + "\n"},
		{"GET", "/elsewhere", healthConfig, 503, brokenText + "\n"},
		{"POST", "/mcp", healthStopping, 401, ""},
	} {
		t.Run(tc.method+" "+tc.path+" "+tc.state, func(t *testing.T) {
			t.Parallel()
			e := &edge{live: new(inForce), state: func() string { return tc.state }, mcp: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
			})}
			e.live.set(config.Default(), nil)
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(tc.method, "http://127.0.0.1:7717"+tc.path, nil))
			if w.Code != tc.code || tc.body != "" && w.Body.String() != tc.body {
				t.Errorf("%s %s = %d %q, want %d %q", tc.method, tc.path, w.Code, w.Body, tc.code, tc.body)
			}
		})
	}
}
