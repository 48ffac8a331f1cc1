package auth_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// guarded is a handler that says who came in.
func guarded(s *auth.Store) http.Handler {
	scope := func(r *http.Request) bridge.Scope {
		if strings.HasPrefix(r.URL.Path, "/a2a") {
			return bridge.ScopeA2A
		}
		return bridge.ScopeMCP
	}
	return s.Middleware(scope, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, ok := bridge.PeerFrom(r.Context())
		_, _ = fmt.Fprintf(w, "%s %v", peer.Name, ok)
	}))
}

func ask(h http.Handler, target string, authorization ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, nil)
	r.Header["Authorization"] = authorization
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAuthorizationHeaderIsReadStrictlyWhereItMatters(t *testing.T) {
	t.Parallel()
	s := newPlace(t).open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	h := guarded(s)
	for _, test := range []struct {
		name   string
		values []string
		want   int
	}{
		{"plain", []string{"Bearer " + token}, 200},
		{"lower case", []string{"bearer " + token}, 200},
		{"upper case", []string{"BEARER " + token}, 200},
		{"two spaces", []string{"Bearer  " + token}, 200},
		{"spaces around", []string{"  Bearer " + token + "  "}, 200},
		{"tab at the end", []string{"Bearer " + token + "\t"}, 200},
		{"no header", nil, 401},
		{"empty", []string{""}, 401},
		{"scheme only", []string{"Bearer"}, 401},
		{"scheme and space", []string{"Bearer "}, 401},
		{"null", []string{"Bearer null"}, 401},
		{"no scheme", []string{token}, 401},
		{"no space", []string{"Bearer" + token}, 401},
		{"basic", []string{"Basic " + token}, 401},
		{"token scheme", []string{"Token " + token}, 401},
		{"tab between", []string{"Bearer\t" + token}, 401},
		{"two headers", []string{"Bearer " + token, "Bearer " + token}, 401},
		{"joined by a comma", []string{"Bearer " + token + ", Bearer " + token}, 401},
		{"joined by a comma alone", []string{"Bearer " + token + "," + token}, 401},
		{"something after it", []string{"Bearer " + token + " x"}, 401},
		{"quoted", []string{`Bearer "` + token + `"`}, 401},
		{"bearer twice", []string{"Bearer Bearer " + token}, 401},
		{"cut", []string{"Bearer " + token[:20]}, 401},
		{"not ASCII", []string{"Bearer " + token + "é"}, 401},
		{"line end", []string{"Bearer " + token + "\r\n"}, 401},
		{"very long", []string{"Bearer " + strings.Repeat("a", 1<<20)}, 401},
	} {
		w := ask(h, "/mcp", test.values...)
		if w.Code != test.want {
			t.Errorf("%s: status %d, want %d", test.name, w.Code, test.want)
		}
		if w.Code == 200 && w.Body.String() != "laptop true" {
			t.Errorf("%s: the handler saw %q", test.name, w.Body.String())
		}
	}
}

func TestEvery401IsTheSame(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	h := guarded(s)
	expired := create(t, s, auth.CreateOptions{Name: "expired", Expires: p.clock.now().Add(time.Second)})
	retired := create(t, s, auth.CreateOptions{Name: "retired"})
	if _, _, err := s.Rotate("retired", 0); err != nil {
		t.Fatal(err)
	}
	p.clock.add(time.Second)
	answers := []*httptest.ResponseRecorder{
		ask(h, "/mcp"), ask(h, "/a2a"), ask(h, "/mcp?token="+retired+"&access_token="+retired), ask(h, "/mcp", "Bearer x"),
		ask(h, "/mcp", "Bearer "+expired), ask(h, "/mcp", "Bearer "+retired), ask(h, "/mcp", "nonsense"),
	}
	if err := os.WriteFile(p.tokens, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	answers = append(answers, ask(h, "/mcp", "Bearer x"))
	for i, w := range answers {
		if w.Code != 401 {
			t.Errorf("answer %d: status %d", i, w.Code)
		}
		if diff := cmp.Diff("This bridge needs a valid token. Its owner can make one: a2actl print-remote-config NAME\n", w.Body.String()); diff != "" {
			t.Errorf("answer %d: body (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff([]string{"Bearer"}, w.Header()["Www-Authenticate"]); diff != "" {
			t.Errorf("answer %d: WWW-Authenticate (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(answers[0].Header(), w.Header()); diff != "" {
			t.Errorf("answer %d: other headers than the first (-first +got):\n%s", i, diff)
		}
	}
	if got := s.Refused24h(); got != len(answers) {
		t.Errorf("Refused24h = %d, want %d", got, len(answers))
	}
	p.clock.add(25 * time.Hour)
	if got := s.Refused24h(); got != 0 {
		t.Errorf("Refused24h a day later = %d", got)
	}
}

func TestTokenInTheQueryDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newPlace(t).open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	for _, name := range []string{"token", "access_token", "authorization", "api_key"} {
		if w := ask(guarded(s), "/mcp?"+name+"="+token); w.Code != 401 {
			t.Errorf("?%s= gives %d", name, w.Code)
		}
	}
}

func TestWrongScopeIs403AndSaysSo(t *testing.T) {
	t.Parallel()
	s := newPlace(t).open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	both := create(t, s, auth.CreateOptions{Name: "both", Scopes: []bridge.Scope{"mcp", "a2a"}})
	h := guarded(s)
	w := ask(h, "/a2a", "Bearer "+token)
	if w.Code != 403 || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("status %d, headers %v", w.Code, w.Header())
	}
	want := `{"error":"This token does not open a2a. Its owner can make one that does: a2actl token create NAME --scope a2a"}` + "\n"
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if w := ask(h, "/a2a", "Bearer "+both); w.Code != 200 {
		t.Errorf("with both scopes: %d", w.Code)
	}
}

func TestRefusedRequestsAreSummedUpOnceAMinuteWithoutAnyToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	var log bytes.Buffer
	s.LogTo(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
	h := guarded(s)
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	if _, _, err := s.Rotate("laptop", 0); err != nil {
		t.Fatal(err)
	}
	wrong := auth.NewSecret().Reveal()
	ask(h, "/mcp", "Bearer "+wrong) // logged at once: a mistake shows
	for range 1000 {
		ask(h, "/mcp?token="+token, "Bearer "+wrong)
		ask(h, "/mcp?token="+token)
		ask(h, "/mcp", "Bearer "+token)
		ask(h, "/mcp", "Bearer "+token+" "+token)
	}
	if err := s.Flush(); err != nil { // less than a minute: nothing
		t.Fatal(err)
	}
	p.clock.add(time.Minute)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	p.clock.add(time.Minute)
	if err := s.Flush(); err != nil { // nothing new
		t.Fatal(err)
	}
	want := `level=WARN msg="requests refused" unknown_token=1
level=WARN msg="requests refused" no_token=1000 malformed_header=1000 unknown_token=1000 retired_token=1000
`
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func FuzzBearer(f *testing.F) {
	f.Add("Bearer a2ab_abc", "", false)
	f.Add("bearer  x ", "Bearer y", true)
	f.Add("Bearer a,b", "", false)
	f.Add("Basic \t x", "", false)
	f.Fuzz(func(t *testing.T, first, second string, both bool) {
		values := []string{first}
		if both {
			values = append(values, second)
		}
		token, err := auth.Bearer(values)
		if err != nil {
			if token != "" {
				t.Errorf("an error and the token %q", token)
			}
			return
		}
		if both || token == "" || len(token) > 512 || strings.ContainsAny(token, " \t\r\n,\"") || !strings.HasSuffix(strings.Trim(first, " \t"), token) {
			t.Errorf("Bearer(%q) = %q", values, token)
		}
	})
}
