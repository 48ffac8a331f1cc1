package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
	"github.com/a2a-bridge/a2a-bridge/internal/probe"
	"github.com/a2a-bridge/a2a-bridge/service"
)

var echo = []bridgetest.ScriptedTool{{Name: "echo", Tier: bridge.TierRead}}

// answer is what came back, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// web sends one request.
func web(t *testing.T, method, url, token, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestWhoIsAskedBeforeWhichSession(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	b.AttachScripted(t, bridgetest.HostOptions{Name: "app", Tools: echo})
	token := b.Token(t, auth.CreateOptions{Name: "laptop"})
	root := strings.TrimSuffix(b.URL, "/mcp")
	for _, tc := range []struct {
		name, path, token string
		want              int
	}{
		{"the address", "/mcp", token, 200},
		{"the short address", "/", token, 200},
		{"a session by name", "/mcp/app", token, 200},
		{"a name that never was, with a token", "/mcp/nobody", token, 404},
		{"a name that never was, without", "/mcp/nobody", "", 401},
		{"a session by name, without", "/mcp/app", "", 401},
		{"no token", "/mcp", "", 401},
		{"a wrong token", "/mcp", "a2ab_wrong", 401},
		{"discovery, without", "/.well-known/oauth-protected-resource", "", 404},
		{"discovery, with", "/.well-known/oauth-protected-resource", token, 404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := web(t, http.MethodPost, root+tc.path, tc.token, initialize)
			if got.status != tc.want {
				t.Errorf("POST %s = %d %s, want %d", tc.path, got.status, got.body, tc.want)
			}
			if tc.want == 401 && (got.header.Get("WWW-Authenticate") != "Bearer" || got.body != auth.Unauthorized) {
				t.Errorf("401 = %q %q", got.header.Get("WWW-Authenticate"), got.body)
			}
		})
	}
}

func TestTheOwnersVerbsInsideAHost(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	h := b.AttachScripted(t, bridgetest.HostOptions{Name: "app", Tools: echo})
	ask := func(r hostlink.Request, into any) error {
		t.Helper()
		raw, err := h.Request(t.Context(), r)
		if err == nil && into != nil {
			err = json.Unmarshal(raw, into)
		}
		return err
	}
	var made hostlink.SecretReply
	if err := ask(hostlink.Request{Verb: hostlink.VerbToken}, &made); err != nil || made.Name != "laptop" || !strings.HasPrefix(made.Token, auth.Prefix) {
		t.Fatalf("token = %q, %v", made.Name, err)
	}
	var second hostlink.SecretReply
	if err := ask(hostlink.Request{Verb: hostlink.VerbToken}, &second); err != nil || second.Name != "laptop-2" {
		t.Errorf("second token = %q, %v", second.Name, err)
	}
	if got := web(t, http.MethodPost, b.URL, made.Token, initialize); got.status != 200 {
		t.Fatalf("the new token: %d %s", got.status, got.body)
	}
	var status hostlink.StatusReply
	if err := ask(hostlink.Request{Verb: hostlink.VerbStatus}, &status); err != nil || status.Address != b.URL || !status.Main || len(status.Tokens) != 2 {
		t.Errorf("status = %+v, %v", status, err)
	}
	if err := ask(hostlink.Request{Verb: hostlink.VerbRotate}, nil); !isKind(err, hostlink.KindConflict) {
		t.Errorf("rotate without a name, of two = %v, want %s", err, hostlink.KindConflict)
	}
	var rotated hostlink.SecretReply
	if err := ask(hostlink.Request{Verb: hostlink.VerbRotate, Name: "laptop"}, &rotated); err != nil || rotated.Token == made.Token {
		t.Errorf("rotate = %v", err)
	}
	if got := web(t, http.MethodPost, b.URL, made.Token, initialize); got.status != 401 {
		t.Errorf("the old token still gets %d", got.status)
	}
	if err := ask(hostlink.Request{Verb: hostlink.VerbRotate, Name: "nobody"}, nil); !isKind(err, hostlink.KindNotFound) {
		t.Errorf("rotate of nobody = %v, want %s", err, hostlink.KindNotFound)
	}
	for _, ms := range []int64{60_000, 18_446_744_073_710} { // the second is a moment for who counts its nanoseconds in 64 bits
		if err := ask(hostlink.Request{Verb: hostlink.VerbPause, ForMs: ms}, nil); err != nil || b.Status(t).State != control.StatePaused {
			t.Errorf("pause for %d ms = %v, state %s", ms, err, b.Status(t).State)
		}
	}
	if err := ask(hostlink.Request{Verb: hostlink.VerbResume}, nil); err != nil || b.Status(t).State == control.StatePaused {
		t.Errorf("resume = %v, state %s", err, b.Status(t).State)
	}
	if err := ask(hostlink.Request{Verb: "dance"}, nil); !isKind(err, hostlink.KindBadRequest) {
		t.Errorf("an unknown verb = %v, want %s", err, hostlink.KindBadRequest)
	}
}

func isKind(err error, kind string) bool {
	var e *hostlink.Error
	return errors.As(err, &e) && e.Kind == kind
}

func TestARevokedTokensStreamEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	token := b.Token(t, auth.CreateOptions{Name: "laptop"})
	session := web(t, http.MethodPost, b.URL, token, initialize).header.Get("Mcp-Session-Id")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	stream, err := http.DefaultClient.Do(req)
	if err != nil || stream.StatusCode != 200 {
		t.Fatalf("GET = %v, %v", stream, err)
	}
	defer stream.Body.Close()
	if err := b.Tokens().Revoke("laptop"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Control.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stream.Body)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the stream ended with %v, want its end", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the stream is still open")
	}
}

func TestListeningBeyondLoopbackIsSaidEverywhere(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{Addr: "0.0.0.0:0", Config: "http:\n  insecure: true\n"})
	h := bridgetest.StartScripted(t, bridgetest.HostOptions{Dial: b.DialHost, Tools: echo})
	if w := h.WaitWelcome(t); !w.Insecure {
		t.Error("the host was not told")
	}
	s := b.Status(t)
	if len(s.Problems) == 0 || s.Problems[0].ID != "insecure" || s.State != control.StateDegraded {
		t.Errorf("status = %s %v", s.State, s.Problems)
	}
	if !strings.HasPrefix(b.URL, "http://127.0.0.1:") {
		t.Errorf("the address is %s, which no client can use", b.URL)
	}
}

func TestAToolThatCannotBeListedIsNamed(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	bridgetest.StartScripted(t, bridgetest.HostOptions{Dial: b.DialHost, Tools: append([]bridgetest.ScriptedTool{
		{Name: "broken", Definition: json.RawMessage(`{"name":"broken","inputSchema":{"type":"string"}}`)}}, echo...)})
	s := b.WaitStatus(t, "the good tool is listed", func(s control.Status) bool { return s.Catalogue.Tools == 1 && !s.Catalogue.Stale })
	if len(s.Catalogue.Skipped) != 1 || s.Catalogue.Skipped[0].Name != "broken" {
		t.Errorf("skipped = %v, want the broken tool", s.Catalogue.Skipped)
	}
	if len(s.Problems) != 1 || s.Problems[0].ID != "catalogue" || !strings.Contains(s.Problems[0].Text, "broken (") {
		t.Errorf("problems = %v, want the broken tool named", s.Problems)
	}
}

func TestNoPartOfATokenIsLoggedOrKept(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	b := bridgetest.Start(t, bridgetest.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	h := b.AttachScripted(t, bridgetest.HostOptions{Tools: echo})
	right := b.Token(t, auth.CreateOptions{Name: "laptop"})
	wrong := strings.ToUpper(right[:24]) + right[24:]
	for _, token := range []string{right, wrong, right + " x", "Bearer " + right} {
		web(t, http.MethodPost, b.URL, token, initialize)
		web(t, http.MethodPost, b.URL+"?token="+url.QueryEscape(token), "", initialize)
	}
	var made hostlink.SecretReply
	raw, err := h.Request(t.Context(), hostlink.Request{Verb: hostlink.VerbRotate})
	if err != nil || json.Unmarshal(raw, &made) != nil {
		t.Fatal(err)
	}
	b.Stop(t)
	seen := map[string]string{"the log": log.String()}
	err = filepath.WalkDir(b.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		seen[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{right, wrong, made.Token} {
		secret := strings.TrimPrefix(token, auth.Prefix)
		for where, text := range seen {
			for i := 0; i+8 <= len(secret); i++ {
				if strings.Contains(text, secret[i:i+8]) {
					t.Errorf("%s holds %q of a token", where, secret[i:i+8])
					break
				}
			}
		}
	}
}

// syncBuffer is a log that many goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestASecondDaemonIsTurnedAway(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	err := service.Run(t.Context(), service.Config{Env: b.Env, HTTPAddr: "127.0.0.1:0", Stderr: io.Discard})
	var held *localsock.HeldError
	if !errors.As(err, &held) || held.PID == 0 {
		t.Errorf("Run = %v, want a HeldError with the pid", err)
	}
	if b.Status(t).State != control.StateReady {
		t.Error("the first daemon suffered")
	}
}

func TestAReloadTakesSettingsOverOrKeepsTheOldOnes(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{Config: "queue:\n  mode: queue\n"})
	b.WriteConfig(t, "queue:\n  mode: reject\nlimits:\n  body: 2MiB\n")
	r, err := b.Control.Reload(t.Context())
	if err != nil || r.Config != "applied" || len(r.Problems) != 0 || len(r.Restart) != 1 || r.Restart[0] != "limits.body" {
		t.Errorf("reload = %+v, %v", r, err)
	}
	b.WriteConfig(t, "queue: [\n")
	r, err = b.Control.Reload(t.Context())
	if err != nil || r.Config != "kept" || len(r.Problems) == 0 || !strings.Contains(r.Problems[0].Text, "config.yaml") {
		t.Errorf("reload of a broken file = %+v, %v", r, err)
	}
	if got := web(t, http.MethodGet, strings.TrimSuffix(b.URL, "/mcp")+"/healthz", "", ""); got.status != 200 {
		t.Errorf("healthz after a broken reload = %d, want 200", got.status)
	}
	s := b.Status(t)
	if len(s.Problems) != 1 || s.Problems[0].Level != control.Warn || s.State != control.StateDegraded ||
		!strings.HasSuffix(s.Problems[0].Text, " (the old settings stay in force)") {
		t.Errorf("status after a broken reload = %s %+v", s.State, s.Problems)
	}
	b.WriteConfig(t, "queue:\n  mode: reject\n")
	if r, err = b.Control.Reload(t.Context()); err != nil || r.Config != "applied" {
		t.Errorf("reload of the mended file = %+v, %v", r, err)
	}
	if s := b.Status(t); len(s.Problems) != 0 || s.State != control.StateReady {
		t.Errorf("status after a good reload = %s %+v", s.State, s.Problems)
	}
}

func TestTheOwnerSeesWhatTheyAreAskedAbout(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	b.AttachScripted(t, bridgetest.HostOptions{Tools: []bridgetest.ScriptedTool{{Name: "bash", Tier: "exec",
		Run: func(ctx context.Context, _ hostlink.CallParams, emit hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
			emit.Approval(hostlink.ApprovalPending)
			<-ctx.Done()
			return nil, &hostlink.Error{Kind: hostlink.KindCancelled, Message: "cancelled", Executed: bridge.ExecutedNo}
		}}}})
	c := probe.New(b.URL, b.Token(t, auth.CreateOptions{Name: "laptop"}))
	defer c.Close()
	for _, tc := range []struct{ args, want string }{
		{`{"command":"rm -rf build"}`, `"rm -rf build"`},
		{`{"command":"make","cwd":"/x"}`, `{"command":"make","cwd":"/x"}`},
		{`{"command":"` + strings.Repeat("ä", 300) + `"}`, `"` + strings.Repeat("ä", 199) + "…"},
	} {
		over := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "bash", json.RawMessage(tc.args), nil)
			over <- err
		}()
		s := b.WaitStatus(t, "a call awaits approval", func(s control.Status) bool { return s.Calls.AwaitingApproval == 1 })
		if got := s.Calls.Open[0].Args; got != tc.want {
			t.Errorf("args of %s = %s, want %s", tc.args, got, tc.want)
		}
		if err := b.Control.CancelCall(t.Context(), s.Calls.Open[0].ID); err != nil {
			t.Error(err)
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

func TestARevokedTokenThatIsStillTriedNeedsNoMending(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	old := b.Token(t, auth.CreateOptions{Name: "laptop"})
	gone := b.Token(t, auth.CreateOptions{Name: "ci"})
	if err := b.Tokens().Revoke("ci"); err != nil {
		t.Fatal(err)
	}
	web(t, http.MethodPost, b.URL, gone, initialize)
	s := b.Status(t)
	if len(s.Problems) != 1 || s.Problems[0].Level != control.Note || s.Problems[0].Fix != "" || s.State != control.StateReady ||
		!strings.Contains(s.Problems[0].Text, `the revoked token "ci" is still tried (1 time since `) {
		t.Errorf("status = %s %+v", s.State, s.Problems)
	}
	if _, _, err := b.Tokens().Rotate("laptop", 0); err != nil {
		t.Fatal(err)
	}
	web(t, http.MethodPost, b.URL, old, initialize)
	s = b.Status(t)
	if len(s.Problems) != 2 || s.State != control.StateDegraded || !strings.Contains(s.Problems[0].Text, `"laptop": 1 request since `) {
		t.Errorf("status = %s %+v", s.State, s.Problems)
	}
}

func TestAHostHearsOfThePeersInUse(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	b.Token(t, auth.CreateOptions{Name: "never"})
	for _, name := range []string{"first", "second"} {
		if got := web(t, http.MethodPost, b.URL, b.Token(t, auth.CreateOptions{Name: name}), initialize); got.status != 200 {
			t.Fatalf("%s is refused: %d", name, got.status)
		}
	}
	h := bridgetest.StartScripted(t, bridgetest.HostOptions{Dial: b.DialHost, Tools: echo})
	if got := h.WaitWelcome(t).Seen; !slices.Equal(got, []string{"second", "first"}) {
		t.Errorf("seen = %v, want the two that were used, the latest first", got)
	}
	docs := bridgetest.StartScripted(t, bridgetest.HostOptions{Name: "docs", Dial: b.DialHost, Tools: echo})
	if got := docs.WaitWelcome(t).Address; got != b.URL+"/docs" {
		t.Errorf("the second session is told %s", got)
	}
	raw, err := docs.Request(t.Context(), hostlink.Request{Verb: hostlink.VerbStatus})
	var reply hostlink.StatusReply
	if err != nil || json.Unmarshal(raw, &reply) != nil || reply.Address != b.URL+"/docs" {
		t.Errorf("/a2a in it says %s, %v", raw, err)
	}
}

func TestAStopLetsARunningAnswerBeWritten(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	release := make(chan struct{})
	h := b.AttachScripted(t, bridgetest.HostOptions{Tools: []bridgetest.ScriptedTool{{Name: "slow", Tier: bridge.TierRead, Run: bridgetest.Block(release, "in time")}}})
	c := probe.New(b.URL, b.Token(t, auth.CreateOptions{Name: "laptop"}))
	defer c.Close()
	type result struct {
		probe.Result
		err error
	}
	answered := make(chan result, 1)
	go func() {
		r, err := c.CallTool(t.Context(), "slow", json.RawMessage(`{}`), nil)
		answered <- result{r, err}
	}()
	bridgetest.Eventually(t, "the tool runs", func() bool { return h.Runs("slow") == 1 })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.Stop(t)
	}()
	addr := strings.TrimSuffix(strings.TrimPrefix(b.URL, "http://"), "/mcp")
	bridgetest.Eventually(t, "the port is closed", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if s := b.Status(t); s.State != control.StateStopping || s.HTTP.Listening || s.HTTP.HeldBy != nil || s.Calls.Running != 1 {
		t.Errorf("status while it drains = %s, %+v, %d running; want stopping, no port, 1", s.State, s.HTTP, s.Calls.Running)
	}
	close(release)
	if a := <-answered; a.err != nil || a.IsError || a.Text != "in time" {
		t.Errorf("the answer is %+v, %v", a.Result, a.err)
	}
	<-stopped
}

// It runs alone: goroutines of other tests would look like ours.
func TestNothingIsLeftAfterAStop(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("a life", func(t *testing.T) {
		b := bridgetest.Start(t, bridgetest.Options{})
		h := b.AttachScripted(t, bridgetest.HostOptions{Tools: echo})
		c := probe.New(b.URL, b.Token(t, auth.CreateOptions{Name: "laptop"}))
		defer c.Close()
		s, err := c.Initialize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if r, err := s.CallTool(t.Context(), "echo", json.RawMessage(`{"a":1}`), nil); err != nil || r.IsError || r.Text != `{"a":1}` {
				t.Fatalf("echo = %+v, %v", r, err)
			}
		}
		// One caller leaves while it waits for a host.
		h.Detach(t)
		b.WaitStatus(t, "the host has left", func(s control.Status) bool { return !s.Main.Attached })
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, "echo", json.RawMessage(`{}`), nil)
			waiting <- err
		}()
		b.WaitStatus(t, "a call waits", func(s control.Status) bool { return s.Calls.Queued == 1 })
		cancel()
		if err := <-waiting; err == nil {
			t.Error("the caller who left was answered")
		}
		b.WaitStatus(t, "it is gone", func(s control.Status) bool { return s.Calls.Queued == 0 })
		if h.Runs("echo") != 3 {
			t.Errorf("echo ran %d times, want 3", h.Runs("echo"))
		}
		b.Restart(t)
	})
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}
