package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

func TestForeignTextCannotMoveTheCursor(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ü ☃":              "plain ü ☃",
		"x\n2026 INFO fake":      `x\x0a2026 INFO fake`,
		"\x1b]0;title\x07":       `\x1b]0;title\x07`,
		"a\u202eb":               `a\u202eb`,
		"a\u0085b\rc":            `a\x85b\x0dc`,
		"bad \xff byte":          `bad \ufffd byte`,
		"zero\u200bwidth\u2028x": `zero\u200bwidth\u2028x`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTimesAreSaidAsPeopleSayThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct{ got, want string }{
		{span(-time.Second), "0 s"},
		{span(59 * time.Second), "59 s"},
		{span(5 * time.Minute), "5 min"},
		{span(72 * time.Minute), "1 h 12 min"},
		{span(3 * time.Hour), "3 h"},
		{span(26*time.Hour + 5*time.Minute), "26 h"},
		{span(75 * time.Hour), "3 days"},
		{left(12 * time.Second), "12 s"},
		{left(220 * time.Second), "3 min 40 s"},
		{left(2 * time.Hour), "2 h"},
		{ago(now, now), "now"},
		{ago(now, now.Add(time.Hour)), "now"},
		{ago(now, now.Add(-3*time.Minute)), "3 min ago"},
		{in(now, now.Add(72*time.Minute)), "in 1 h 12 min"},
		{in(now, now), "over"},
		{made(now, now), "just now"},
		{made(now, now.Add(-3*time.Second)), "3 s ago"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

// omp drops digits from the names of servers.
func TestServerNamesStayDistinctWithoutDigits(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for in, want := range map[string]string{
		"you@workbench": "workbench", "web1": "web-one", "web2": "web-two", "web12": "web-one-two",
		"Box.example.org": "box", "r6": "r-six", "r3": "r-three", "a_b": "a-b",
	} {
		got := serverName(in, "")
		if got != want {
			t.Errorf("serverName(%q) = %q, want %q", in, got, want)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("serverName(%q) = serverName(%q)", in, other)
		}
		seen[got] = in
	}
	if a, b := serverName("box", "app"), serverName("box", "app2"); a == b || strings.ContainsAny(a+b, "0123456789") {
		t.Errorf("two sessions are named %q and %q", a, b)
	}
	if got := serverName("10.0.0.1", ""); strings.HasPrefix(got, "one-zero") || got == "" {
		t.Errorf("serverName of an address = %q, want this machine's", got)
	}
}

func TestEveryKindHasAnExitCode(t *testing.T) {
	t.Parallel()
	for _, k := range bridge.Kinds() {
		if kindCodes[k] == 0 {
			t.Errorf("the kind %q has no row", k)
		}
	}
	for _, tc := range []struct {
		name string
		err  error
		code int
		said string
	}{
		{"nothing", nil, exitDone, ""},
		{"any error", errors.New("no luck"), exitFailed, "no luck\n"},
		{"a kind inside", fmt.Errorf("token: %w", bridge.NotFound), exitNotFound, "token: not found\n"},
		{"with a next step", withTry(errors.New("no luck"), "again"), exitFailed, "no luck\ntry: again\n"},
		{"a mistake", usage("--help", "what is %q", "x"), exitUsage, "what is \"x\"\ntry: --help\n"},
		{"nobody there", &control.Unreachable{Path: "/s", Err: errors.New("gone")}, exitUnreachable, "no daemon answers on /s: gone\n"},
		{"interrupted", fmt.Errorf("wait: %w", context.Canceled), exitInterrupted, ""},
		{"all said", silent(exitUnreachable), exitUnreachable, ""},
		{"nobody reads", fmt.Errorf("write: %w", syscall.EPIPE), exitFailed, ""},
		{"foreign text", errors.New("tool \x1b[2J gone"), exitFailed, "tool \\x1b[2J gone\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			report(&b, tc.err)
			if code(tc.err) != tc.code || b.String() != tc.said {
				t.Errorf("%v ends with %d and %q, want %d and %q", tc.err, code(tc.err), b.String(), tc.code, tc.said)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestStatusIsOnePage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 14, 5, 0, 0, time.Local)
	base := func() control.Status {
		return control.Status{State: control.StateReady, URL: "http://127.0.0.1:7717/mcp", HTTP: control.HTTP{Listening: true},
			Daemon: control.Daemon{Version: ptr("1.0.0"), StartedAt: ptr(now.Add(-3 * time.Hour))}}
	}
	app := control.Host{Name: "app", Kind: "omp", Main: true, State: "idle", Tools: 19, Gate: true, AttachedAt: now.Add(-2 * time.Hour), Tmux: ptr("work:0.0"), Path: "/mcp/app"}
	docs := control.Host{Name: "docs", Kind: "omp", State: "busy", Tools: 19, Gate: true, AttachedAt: now.Add(-5 * time.Minute), Path: "/mcp/docs"}
	for _, tc := range []struct {
		name string
		make func(*control.Status)
		want string
	}{
		{"a good day", func(s *control.Status) {
			s.Hosts = []control.Host{app, docs}
			s.Peers = []control.Peer{
				{Token: "laptop", Client: ptr("omp"), LastSeenAt: ptr(now.Add(-3 * time.Minute))},
				{Token: "review-bot", Client: ptr("claude-code"), Running: 1, Tools: []string{"read", "grep"}, ExpiresAt: ptr(now.Add(72 * time.Minute))},
			}
			s.Calls = control.Calls{Running: 1, Today: control.Today{Done: 205, Error: 6, Unknown: 1}}
		}, `
a2a-bridge 1.0.0   ready   http://127.0.0.1:7717/mcp   up 3 h
omp     app    main   idle   19 tools   attached 2 h     tmux work:0.0
        docs          busy   19 tools   attached 5 min   /mcp/docs
peers   laptop       omp           last seen 3 min ago
        review-bot   claude-code   1 running             read,grep   ends in 1 h 12 min
calls   1 running, 0 waiting          today 212: 205 done, 6 errors, 1 may have run
`},
		{"nobody home", func(s *control.Status) {
			s.Main = control.Main{Name: ptr("app"), LastLeftAt: ptr(now.Add(-3 * time.Minute)), LeftReason: ptr("closed by its user")}
			s.Peers = []control.Peer{{Token: "laptop", Waiting: 1}}
			s.Calls = control.Calls{Queued: 1, Open: []control.OpenCall{{ID: "c_1", State: "queued", Deadline: ptr(now.Add(12 * time.Second))}}}
		}, `
a2a-bridge 1.0.0   ready, no omp session   http://127.0.0.1:7717/mcp
omp     none since 14:02 ("app" left: closed by its user); 1 call waiting, 12 s left
        fix: start omp, or wait for it in a script: a2actl wait --host --timeout 60s
peers   laptop   0 running, 1 waiting
calls   0 running, 1 waiting
`},
		{"an approval", func(s *control.Status) {
			s.Hosts = []control.Host{app}
			s.Peers = []control.Peer{{Token: "laptop", Running: 1}}
			s.Calls = control.Calls{Running: 1, AwaitingApproval: 1, Open: []control.OpenCall{
				{ID: "c_2m4wqe", Peer: "laptop", Tool: "bash", Args: `"rm -rf build"`, Host: "app", State: control.StateAwaitingApproval, Deadline: ptr(now.Add(220 * time.Second))}}}
		}, `
a2a-bridge 1.0.0   ready   http://127.0.0.1:7717/mcp   up 3 h
omp     app   main   idle   19 tools   attached 2 h   tmux work:0.0
peers   laptop   1 running
calls   1 waiting for your approval, 3 min 40 s left
        c_2m4wqe  laptop  bash "rm -rf build"  in omp "app", tmux work:0.0
        go there: tmux attach -t work:0.0      refuse: a2actl calls cancel c_2m4wqe
        1 running, 0 waiting
`},
		{"trouble", func(s *control.Status) {
			s.State, s.HTTP.Listening = control.StateDegraded, false
			s.Problems = []control.Problem{{ID: "socket", Level: control.Fail, Text: "no http socket", Fix: "look", See: "a2actl paths"}}
		}, `
a2a-bridge 1.0.0   degraded, no HTTP port, no omp session   http://127.0.0.1:7717/mcp
omp     none yet
        fix: start omp, or wait for it in a script: a2actl wait --host --timeout 60s
peers   none: nobody has a token. Make one with its config: a2actl print-remote-config laptop
calls   0 running, 0 waiting
fail    no http socket
        fix: look
        see: a2actl paths
`},
		{"a note leaves it ready", func(s *control.Status) {
			s.Hosts, s.Peers = []control.Host{app}, []control.Peer{{Token: "ci"}}
			s.Problems = []control.Problem{{ID: "token", Level: control.Note, Text: `the revoked token "laptop" is still tried`}}
		}, `
a2a-bridge 1.0.0   ready   http://127.0.0.1:7717/mcp   up 3 h
omp     app   main   idle   19 tools   attached 2 h   tmux work:0.0
peers   ci   never used
calls   0 running, 0 waiting
note    the revoked token "laptop" is still tried
`},
		{"on its way out", func(s *control.Status) {
			s.State, s.Hosts, s.Peers = control.StateStopping, []control.Host{app}, []control.Peer{{Token: "ci", Running: 1}}
			s.Calls.Running = 1
		}, `
a2a-bridge 1.0.0   stopping, 1 call finishes first
omp     app   main   idle   19 tools   attached 2 h   tmux work:0.0
peers   ci   1 running
calls   1 running, 0 waiting
`},
		{"paused", func(s *control.Status) {
			s.State, s.Daemon.PausedUntil = control.StatePaused, ptr(now.Add(10*time.Minute))
			s.Hosts = []control.Host{{Name: "evil\x1b[2J", Kind: "stdio", State: "not_ready", AttachedAt: now, Path: "/mcp/evil"}}
			s.Peers = []control.Peer{{Token: "laptop"}}
		}, `
a2a-bridge 1.0.0   paused, 10 min left   (a2actl resume)   http://127.0.0.1:7717/mcp   up 3 h
omp     evil\x1b[2J   not ready   0 tools   attached 0 s   /mcp/evil   stdio, no approval gate
peers   laptop   never used
calls   0 running, 0 waiting
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := base()
			tc.make(&s)
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), statusText(s, now, 0)); diff != "" {
				t.Errorf("status (-want +got)\n%s", diff)
			}
		})
	}
}

func TestANarrowTerminalGetsParagraphs(t *testing.T) {
	t.Parallel()
	header := []string{"NAME", "TOOLS", "LAST USED"}
	rows := [][]string{{"laptop", "all", "3 min ago, omp"}, {"review-bot", "read,grep", ""}}
	for width, want := range map[int][]string{
		0:  {"NAME         TOOLS       LAST USED", "laptop       all         3 min ago, omp", "review-bot   read,grep"},
		80: {"NAME         TOOLS       LAST USED", "laptop       all         3 min ago, omp", "review-bot   read,grep"},
		30: {"laptop  tools all", "  last used 3 min ago, omp", "review-bot  tools read,grep"},
	} {
		if diff := cmp.Diff(want, table(width, header, rows)); diff != "" {
			t.Errorf("width %d (-want +got)\n%s", width, diff)
		}
	}
	s := control.Status{State: control.StateReady, URL: "http://127.0.0.1:7717/mcp", HTTP: control.HTTP{Listening: true}}
	for l := range strings.Lines(statusText(s, time.Now(), 40)) {
		if strings.HasPrefix(l, "a2a-bridge") && len(l) > 41 {
			t.Errorf("the first line is wider than the terminal: %q", l)
		}
	}
}

func TestABuildBetweenReleasesIsNamedByItsCommit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"1.0.0": "1.0.0", "dev": "dev", "1.2.0-rc.1": "1.2.0-rc.1",
		"0.0.0-20260701120000-d14411b5c6aa":         "dev d14411b",
		"1.0.1-0.20260701120000-d14411b5c6aa+dirty": "dev d14411b",
		"1.0.1-rc.1.0.20260701120000-d14411b5c6aa":  "dev d14411b",
	} {
		if got := shortVersion(in); got != want {
			t.Errorf("shortVersion(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestANoteNeedsNoMending(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]bool{control.Note: false, control.Warn: true, control.Fail: true} {
		if got := needsMending(control.Status{Problems: []control.Problem{{Level: level}}}); got != want {
			t.Errorf("needsMending with a %s = %t", level, got)
		}
	}
}

func TestEveryKindSaysWhyToTheOwner(t *testing.T) {
	t.Parallel()
	for _, k := range bridge.Kinds() {
		if whys[k] == "" {
			t.Errorf("the kind %q has no words", k)
		}
	}
	c := control.CallRecord{ID: "c_1", Peer: "laptop", Tool: "bash", State: "refused", Kind: bridge.Paused, Executed: bridge.ExecutedNo}
	if got, want := callText(c), "c_1  laptop  bash  refused: the bridge was paused\n  it did not run\n"; got != want {
		t.Errorf("a refused call is %q, want %q", got, want)
	}
	c = control.CallRecord{ID: "c_1", Peer: "laptop", Tool: "bash", Host: "app", State: "done", Executed: bridge.ExecutedYes, WaitedMS: 19_600, ArgsBytes: 9}
	if got, want := callText(c), "c_1  laptop  bash  app  done\n  waited 20 s, ran once, arguments 9 bytes, result 0 bytes\n"; got != want {
		t.Errorf("a call that waited is %q, want %q", got, want)
	}
}
