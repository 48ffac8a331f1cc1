package e2e_test

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// progressRuns is how often the progress scenario has to pass: a notification that races with the result is lost only
// now and then.
const progressRuns = 20

// withToken is the bridge behind a proxy that adds the token, since the suite cannot send a header. Everything else
// passes as it is, Host and Origin too.
func withToken(t *testing.T, b *bridgetest.Bridge, token string) string {
	t.Helper()
	target, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,                         // streams pass event by event
		ErrorLog:      log.New(io.Discard, "", 0), // of clients that have gone
		Rewrite: func(r *httputil.ProxyRequest) {
			// Taken whole: a proxy that still reads the body when the answer begins closes the connection, since its own
			// server has then closed the body.
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				t.Errorf("read a request: %v", err)
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
	})
	t.Cleanup(proxy.Close)
	return proxy.URL + target.Path
}

func TestConformanceSuitePassesButForWhatIsNotOffered(t *testing.T) {
	t.Parallel()
	tools := bridgetest.Tools(t)
	b := startFixture(t)
	address := withToken(t, b, token(t, b, "conformance"))
	baseline, err := filepath.Abs("testdata/conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := clientEnv(t.TempDir(), tools)
	out := run(t, env, tools.Node, tools.Conformance, "server", "--url", address, "--suite", "all", "--expected-failures", baseline)
	for _, scenario := range []string{
		"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
		"tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress",
		"json-schema-2020-12", "server-sse-polling", "server-sse-multiple-streams", "dns-rebinding-protection",
	} {
		if !strings.Contains(out, "✓ "+scenario+":") {
			t.Errorf("scenario %s did not pass", scenario)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

func TestConformanceProgressIsNeverLost(t *testing.T) {
	t.Parallel()
	tools := bridgetest.Tools(t)
	b := startFixture(t)
	address := withToken(t, b, token(t, b, "conformance"))
	env := clientEnv(t.TempDir(), tools)
	for range progressRuns {
		run(t, env, tools.Node, tools.Conformance, "server", "--url", address, "--scenario", "tools-call-with-progress", "--verbose")
	}
}
