package auth_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

type place struct {
	tokens, use string
	clock       *clock
}

func newPlace(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	return place{filepath.Join(dir, "config", "tokens.json"), filepath.Join(dir, "state", "token-use.json"),
		&clock{t: time.Date(2026, 3, 1, 14, 5, 0, 0, time.UTC)}}
}

func (p place) open() *auth.Store { return auth.Open(p.tokens, p.use, p.clock.now) }

func create(t *testing.T, s *auth.Store, o auth.CreateOptions) string {
	t.Helper()
	secret, _, err := s.Create(o)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

func accepts(s *auth.Store, token string) bool {
	_, err := s.Verify(token)
	return err == nil
}

func TestTokenIsMadeWithItsDefaultsAndKnownAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	secret, record, err := s.Create(auth.CreateOptions{Name: "laptop"})
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Record{ID: record.ID, Name: "laptop", Role: bridge.RolePeer, Scopes: []bridge.Scope{bridge.ScopeMCP},
		Created: p.clock.now(), Wait: 25 * time.Second}
	if diff := cmp.Diff(want, record); diff != "" || record.ID == "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	peer, err := p.open().Verify(secret.Reveal()) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	wantPeer := bridge.Peer{Token: record.ID, Name: "laptop", Role: bridge.RolePeer, Scopes: want.Scopes, Wait: want.Wait}
	if diff := cmp.Diff(wantPeer, peer); diff != "" {
		t.Errorf("peer (-want +got):\n%s", diff)
	}
}

func TestTokenKeepsAllThatWasAsked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := auth.CreateOptions{Name: "review-bot.2", Role: bridge.RoleOwner, Scopes: []bridge.Scope{bridge.ScopeA2A, bridge.ScopeMCP},
		Tools: []string{"read", "mcp__*"}, Expires: p.clock.now().Add(2 * time.Hour), Wait: 300 * time.Second}
	token := create(t, p.open(), o)
	record, err := p.open().Get(o.Name)
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Record{ID: record.ID, Name: o.Name, Role: o.Role, Scopes: o.Scopes, Tools: o.Tools, Created: p.clock.now(), Expires: o.Expires, Wait: o.Wait}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := p.open()
	p.clock.add(2*time.Hour - time.Nanosecond)
	if !accepts(s, token) {
		t.Error("refused before it expired")
	}
	p.clock.add(time.Nanosecond)
	if accepts(s, token) {
		t.Error("accepted at its expiry")
	}
	p.clock.add(-time.Hour) // a clock that is set back
	if !accepts(s, token) {
		t.Error("refused after the clock was set back")
	}
}

func TestOnlyHashesAreStoredInPrivateFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	old := token
	secret, _, err := s.Rotate("laptop", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	token = secret.Reveal()
	s.Seen("t_x", bridge.Client{Name: "omp"})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Dir(filepath.Dir(p.tokens)), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if name := filepath.Base(path); info.Mode().Perm()&0o077 != 0 && (d.Type().IsRegular() || name == "config" || name == "state") {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, secret := range []string{old, token} {
			for i := 0; i+8 <= len(secret); i++ {
				if strings.Contains(string(data), secret[i:i+8]) {
					t.Fatalf("%s holds part of a token", path)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNothingButTheTokenIsAccepted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	data, err := os.ReadFile(p.tokens)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Tokens []struct{ Hash string } }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"", "null", "undefined", "a2ab_", "PASTE_TOKEN_HERE", "laptop", token[:len(token)-1], token + "A", token + "\n", " " + token,
		strings.ToUpper(token), strings.TrimPrefix(token, "a2ab_"), file.Tokens[0].Hash, auth.NewSecret().Reveal()} {
		if _, err := s.Verify(other); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("Verify(%q) = %v", other, err)
		}
	}
	if !accepts(s, token) {
		t.Error("the token itself is refused")
	}
}

func TestRotationStopsTheOldTokenAtOnceOrAfterTheOverlap(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	daemon, cli := p.open(), p.open() // two processes on one file
	first := create(t, cli, auth.CreateOptions{Name: "laptop"})
	if !accepts(daemon, first) {
		t.Fatal("the daemon does not see the new token")
	}
	secret, record, err := cli.Rotate("laptop", 0)
	if err != nil {
		t.Fatal(err)
	}
	second := secret.Reveal()
	if accepts(daemon, first) || !accepts(daemon, second) {
		t.Errorf("after rotation: old %v, new %v", accepts(daemon, first), accepts(daemon, second))
	}
	peer, _ := daemon.Verify(second)
	if before, _ := cli.Get("laptop"); peer.Token != before.ID || !record.Rotated.Equal(p.clock.now()) {
		t.Errorf("rotation made another record: %+v", record)
	}

	secret, _, err = cli.Rotate("laptop", 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	third := secret.Reveal()
	if !accepts(daemon, second) || !accepts(daemon, third) || accepts(daemon, first) {
		t.Error("in the overlap not both, or the first again")
	}
	p.clock.add(24 * time.Hour)
	if accepts(daemon, second) || !accepts(daemon, third) {
		t.Error("after the overlap the old one still counts, or the new one does not")
	}
	for _, overlap := range []time.Duration{-time.Second, 31 * 24 * time.Hour} {
		if _, _, err := cli.Rotate("laptop", overlap); err == nil {
			t.Errorf("an overlap of %s is accepted", overlap)
		}
	}
}

func TestRotationWithoutOverlapEndsEarlierOverlaps(t *testing.T) {
	t.Parallel()
	s := newPlace(t).open()
	leaked := create(t, s, auth.CreateOptions{Name: "laptop"})
	for _, overlap := range []time.Duration{time.Hour, 0} {
		if _, _, err := s.Rotate("laptop", overlap); err != nil {
			t.Fatal(err)
		}
	}
	if accepts(s, leaked) {
		t.Error("a token in its overlap survives a rotation without overlap")
	}
}

func TestRotationWithoutANameNeedsASingleToken(t *testing.T) {
	t.Parallel()
	s := newPlace(t).open()
	if _, _, err := s.Rotate("", 0); !errors.Is(err, bridge.NotFound) || err.Error() != "there are no tokens" {
		t.Errorf("without tokens: %v", err)
	}
	create(t, s, auth.CreateOptions{Name: "laptop"})
	if _, r, err := s.Rotate("", 0); err != nil || r.Name != "laptop" {
		t.Errorf("with one: %+v, %v", r, err)
	}
	create(t, s, auth.CreateOptions{Name: "ci"})
	if _, _, err := s.Rotate("", 0); !errors.Is(err, bridge.Conflict) || !strings.Contains(err.Error(), "laptop, ci") {
		t.Errorf("with two: %v", err)
	}
	if _, _, err := s.Rotate("other", 0); !errors.Is(err, bridge.NotFound) {
		t.Errorf("unknown name: %v", err)
	}
}

func TestRevokedTokenIsGoneAndItsUseIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	daemon, cli := p.open(), p.open()
	token := create(t, cli, auth.CreateOptions{Name: "laptop"})
	other := create(t, cli, auth.CreateOptions{Name: "ci"})
	if err := cli.Revoke("laptop"); err != nil {
		t.Fatal(err)
	}
	if accepts(daemon, token) || !accepts(daemon, other) {
		t.Error("the revoked token counts, or the other does not")
	}
	if err := cli.Revoke("laptop"); !errors.Is(err, bridge.NotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	revoked := p.clock.now()
	p.clock.add(time.Minute)
	accepts(daemon, token)
	want := []auth.RetiredUse{{Name: "laptop", Revoked: true, At: revoked, Count: 2, First: revoked, Last: revoked.Add(time.Minute)}}
	if diff := cmp.Diff(want, daemon.RetiredUses()); diff != "" {
		t.Errorf("RetiredUses (-want +got):\n%s", diff)
	}
	if err := daemon.Flush(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, p.open().RetiredUses()); diff != "" {
		t.Errorf("RetiredUses of another process (-want +got):\n%s", diff)
	}

	// The name is free again, for a token of its own; old hashes go after 30 days.
	p.clock.add(30*24*time.Hour + time.Second)
	if again := create(t, cli, auth.CreateOptions{Name: "laptop"}); !accepts(daemon, again) {
		t.Error("a new token under the old name is refused")
	}
	if got := daemon.RetiredUses(); len(got) > 0 {
		t.Errorf("still told after 30 days: %v", got)
	}
}

func TestNamesAndOptionsAreChecked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	create(t, s, auth.CreateOptions{Name: "taken"})
	for _, test := range []struct {
		o    auth.CreateOptions
		want string
	}{
		{auth.CreateOptions{}, "cannot be the name of a token"},
		{auth.CreateOptions{Name: "Laptop"}, "cannot be the name of a token"},
		{auth.CreateOptions{Name: "-x"}, "cannot be the name of a token"},
		{auth.CreateOptions{Name: "a/b"}, "cannot be the name of a token"},
		{auth.CreateOptions{Name: "a\x1b[31m"}, `a\x1b[31m`},
		{auth.CreateOptions{Name: strings.Repeat("a", 65)}, "cannot be the name of a token"},
		{auth.CreateOptions{Name: "taken"}, `a token named "taken" exists already`},
		{auth.CreateOptions{Name: "x", Role: "admin"}, `"admin" is not a role: use owner or peer`},
		{auth.CreateOptions{Name: "x", Scopes: []bridge.Scope{"all"}}, `"all" is not a scope: use mcp, a2a or both`},
		{auth.CreateOptions{Name: "x", Scopes: []bridge.Scope{"mcp", "mcp"}}, "named twice"},
		{auth.CreateOptions{Name: "x", Tools: []string{"["}}, `"[" is not a glob`},
		{auth.CreateOptions{Name: "x", Tools: []string{""}}, `"" is not a glob`},
		{auth.CreateOptions{Name: "x", Tools: make([]string, 65)}, "the limit is 64"},
		{auth.CreateOptions{Name: "x", Expires: p.clock.now()}, "has passed"},
		{auth.CreateOptions{Name: "x", Wait: time.Millisecond}, "use 1s to 1h"},
	} {
		if _, _, err := s.Create(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Create(%+v) = %v, want %q", test.o, err, test.want)
		}
	}
	if _, _, err := s.Create(auth.CreateOptions{Name: "taken"}); !errors.Is(err, bridge.Conflict) {
		t.Errorf("a taken name is %v", err)
	}
	if _, _, err := s.Create(auth.CreateOptions{Name: "a/b"}); !errors.Is(err, bridge.BadArguments) {
		t.Errorf("a bad name is %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("List = %v, %v", list, err)
	}
	if _, _, err := s.Create(auth.CreateOptions{Name: strings.Repeat("a", 64)}); err != nil {
		t.Errorf("a name of 64 letters: %v", err)
	}
}

func TestAnExpiredTokenGetsNoNewSecret(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	ends := p.clock.now().Add(time.Minute)
	create(t, s, auth.CreateOptions{Name: "ex", Expires: ends})
	p.clock.add(time.Minute)
	_, _, err := s.Rotate("ex", 0)
	var ended *auth.EndedError
	if !errors.As(err, &ended) || !errors.Is(err, bridge.Conflict) || ended.Name != "ex" || !ended.At.Equal(ends) {
		t.Errorf("Rotate = %v, want that it ended", err)
	}
}

func TestWaitCanBeSetLater(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	if err := p.open().SetWait("laptop", 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	if peer, err := s.Verify(token); err != nil || peer.Wait != 5*time.Minute {
		t.Errorf("Verify = %+v, %v", peer, err)
	}
	if err := s.SetWait("laptop", 0); err == nil {
		t.Error("a wait of nothing is accepted")
	}
	if err := s.SetWait("other", time.Minute); !errors.Is(err, bridge.NotFound) {
		t.Errorf("unknown name: %v", err)
	}
}

func TestMissingFileAdmitsNobodyAndIsNoProblem(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	if err := s.Problem(); err != nil {
		t.Errorf("Problem = %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("List = %v, %v", list, err)
	}
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	if err := os.Remove(p.tokens); err != nil {
		t.Fatal(err)
	}
	if accepts(s, token) {
		t.Error("accepted although the file is gone")
	}
	if err := s.Problem(); err != nil {
		t.Errorf("Problem = %v", err)
	}
}

func TestBrokenFileAdmitsNobodyIsNamedAndIsNotOverwritten(t *testing.T) {
	t.Parallel()
	good := newPlace(t)
	token := create(t, good.open(), auth.CreateOptions{Name: "laptop", Tools: []string{"read"}})
	data, err := os.ReadFile(good.tokens)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "it is empty"},
		{"a newline", "\n", "it is empty"},
		{"cut", text[:len(text)/2], "it ends too early"},
		{"garbage", "hello " + text, "it is not JSON"},
		{"more after it", text + "{}", "something follows its end"},
		{"of a future version", strings.Replace(text, `"version": 1`, `"version": 2`, 1), "its version is 2"},
		{"an unknown field", strings.Replace(text, `"name"`, `"max_calls": 1, "name"`, 1), `unknown field "max_calls"`},
		{"a wrong type", strings.Replace(text, `"laptop"`, `7`, 1), "has the wrong type"},
		{"a bad name", strings.ReplaceAll(text, `laptop"`, `LAPTOP"`), "cannot be the name"},
		{"a short hash", strings.Replace(text, `"hash": "`, `"hash": "00`, 1), "not a SHA-256"},
		{"a strange principal", strings.Replace(text, "peer:laptop", "root", 1), "its principal is neither"},
		{"somebody else's principal", strings.Replace(text, "peer:laptop", "peer:ci", 1), "its principal is neither"},
		{"no scope", strings.Replace(text, `"mcp"`, ``, 1), "needs a scope"},
		{"a bad glob", strings.Replace(text, `"read"`, `"["`, 1), "is not a glob"},
		{"a bad wait", strings.Replace(text, `"25s"`, `"soon"`, 1), "its wait is not a duration"},
		{"an array", "[]", "has the wrong type"},
		{"too large", text + strings.Repeat(" ", 1<<20), "larger than 1 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			s := p.open()
			create(t, s, auth.CreateOptions{Name: "other"})
			if err := os.WriteFile(p.tokens, []byte(test.text), 0o600); err != nil { // in place, as an editor would
				t.Fatal(err)
			}
			if accepts(s, token) || accepts(p.open(), token) {
				t.Error("a token is accepted")
			}
			err := s.Problem()
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), p.tokens) || !strings.Contains(err.Error(), "mv "+p.tokens) {
				t.Fatalf("Problem = %v, want %q, the file and what to do", err, test.want)
			}
			if _, _, err := s.Create(auth.CreateOptions{Name: "new"}); err == nil {
				t.Error("Create succeeds on a broken file")
			}
			if _, err := s.List(); err == nil {
				t.Error("List hides the problem")
			}
			if now, _ := os.ReadFile(p.tokens); string(now) != test.text {
				t.Error("the broken file was overwritten")
			}
			if err := os.WriteFile(p.tokens, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if !accepts(s, token) || s.Problem() != nil {
				t.Error("the mended file is not seen")
			}
		})
	}
}

func TestFileThatOthersCouldHaveWrittenAdmitsNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	for mode, want := range map[os.FileMode]bool{0o660: false, 0o602: false, 0o644: true, 0o600: true} {
		if err := os.Chmod(p.tokens, mode); err != nil {
			t.Fatal(err)
		}
		if got := accepts(s, token); got != want {
			t.Errorf("mode %o: accepted %v", mode, got)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(p.tokens, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if accepts(s, token) || !strings.Contains(s.Problem().Error(), "another user (uid 12345)") {
			t.Errorf("another user's file: %v", s.Problem())
		}
	}
}

func TestFileThatIsNoFileAdmitsNobody(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"fifo":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"loop":      func(path string) error { return os.Symlink(path, path) },
	} {
		p := newPlace(t)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p.tokens), 0o700), make(p.tokens)); err != nil {
			t.Fatal(err)
		}
		s := p.open()
		if s.Problem() == nil || accepts(s, "x") {
			t.Errorf("%s: no problem", name)
		}
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var wg sync.WaitGroup
	for _, name := range strings.Split("a b c d e f g h i j k l m n o p", " ") {
		wg.Go(func() {
			s := p.open()
			if _, _, err := s.Create(auth.CreateOptions{Name: name}); err != nil {
				t.Error(err)
			}
			if _, _, err := s.Rotate(name, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := p.open().List(); err != nil || len(list) != 16 {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}

func TestStateThatCannotBeWrittenIsToldAndTokensGoOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	token := create(t, s, auth.CreateOptions{Name: "laptop"})
	if err := os.WriteFile(filepath.Dir(p.use), nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	s.Seen("t_x", bridge.Client{})
	if err := s.Flush(); err == nil {
		t.Error("Flush says nothing")
	}
	if !accepts(s, token) {
		t.Error("the token is refused")
	}
}

func TestLastUseIsRememberedAndTrimmed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	create(t, s, auth.CreateOptions{Name: "laptop"})
	create(t, s, auth.CreateOptions{Name: "ci"})
	record, _ := s.Get("laptop")
	used := p.clock.now()
	s.Seen(record.ID, bridge.Client{Name: "omp\x1b[31m" + strings.Repeat("x", 200), Version: "18.1.16"})
	p.clock.add(time.Second)
	s.Seen(record.ID, bridge.Client{}) // says nothing of itself this time
	s.Seen("t_revoked", bridge.Client{Name: "old"})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	again := p.open()
	at, client := again.Used("laptop")
	if !at.Equal(used.Add(time.Second)) || client.Name != "omp[31m"+strings.Repeat("x", 56) || client.Version != "18.1.16" {
		t.Errorf("Used = %v, %+v", at, client)
	}
	for _, name := range []string{"ci", "nobody"} {
		if at, _ := again.Used(name); !at.IsZero() {
			t.Errorf("Used(%s) = %v", name, at)
		}
	}
	data, err := os.ReadFile(p.use)
	if err != nil || strings.Contains(string(data), "t_revoked") {
		t.Errorf("the file keeps tokens that are gone: %s, %v", data, err)
	}
	if err := os.Remove(p.use); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.use); err == nil {
		t.Error("Flush writes although nothing changed")
	}
}

func TestBrokenUseFileCostsOnlyThePast(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"version":9}`, `{"version":1,"tokens":{"a":null}}`, "[]"} {
		p := newPlace(t)
		s := p.open()
		create(t, s, auth.CreateOptions{Name: "laptop"})
		record, _ := s.Get("laptop")
		text = strings.ReplaceAll(text, `"a"`, `"`+record.ID+`"`)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p.use), 0o700), os.WriteFile(p.use, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		s = p.open()
		if at, _ := s.Used("laptop"); !at.IsZero() {
			t.Errorf("%q: Used = %v", text, at)
		}
		s.Seen(record.ID, bridge.Client{Name: "omp"})
		if err := s.Flush(); err != nil {
			t.Error(err)
		}
		if _, client := p.open().Used("laptop"); client.Name != "omp" {
			t.Errorf("%q: not written anew", text)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	hash := strings.Repeat("0f", 32)
	f.Add([]byte(`{"version":1,"tokens":[{"id":"t_a","name":"laptop","principal":"peer:laptop","hash":"` + hash +
		`","scopes":["mcp"],"created":"2026-03-01T00:00:00Z","wait":"25s"}],"retired":[]}`))
	f.Add([]byte(`{"version":1,"tokens":[],"retired":[{"token":"t","name":"n","hash":"` + hash + `","at":"2026-03-01T00:00:00Z"}]}`))
	f.Add([]byte("\n"))
	f.Add([]byte(`{"version":1}{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		err := auth.ParseFile(data)
		if err != nil {
			if err.Error() == "" || len(err.Error()) > 400 {
				t.Errorf("error %q", err)
			}
			return
		}
		// Whatever is accepted must be usable, and admit no token by accident.
		path := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := auth.Open(path, path+".use", time.Now)
		if s.Problem() != nil {
			t.Errorf("parsed, but: %v", s.Problem())
		}
		for _, guess := range []string{"", "null", "a2ab_"} {
			if accepts(s, guess) {
				t.Errorf("%q is accepted", guess)
			}
		}
	})
}
