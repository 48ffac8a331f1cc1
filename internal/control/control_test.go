package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// daemon answers like one, from what a test puts into it.
type daemon struct {
	status control.Status
	asked  []string
	fail   error
}

func (d *daemon) note(format string) { d.asked = append(d.asked, format) }

func (d *daemon) Status(context.Context) control.Status { return d.status }
func (d *daemon) Paths() control.Paths                  { return control.Paths{Config: "/c", State: "/s"} }
func (d *daemon) Tools() control.ToolList {
	return control.ToolList{Host: "app", Tools: []string{"read"}}
}
func (d *daemon) Reload(context.Context) (control.Reloaded, error) {
	return control.Reloaded{Config: "applied", Restart: []string{"http.port"}}, d.fail
}
func (d *daemon) Recent(n int) ([]control.CallRecord, error) {
	return make([]control.CallRecord, min(n, 3)), d.fail
}
func (d *daemon) Show(id bridge.CallID) (control.CallRecord, error) {
	return control.CallRecord{ID: id}, d.fail
}
func (d *daemon) Cancel(id bridge.CallID) error { d.note("cancel " + string(id)); return d.fail }
func (d *daemon) Use(name string) error         { d.note("use " + name); return d.fail }
func (d *daemon) UseAuto() error                { d.note("auto"); return d.fail }
func (d *daemon) Pause(t time.Duration) (control.PauseState, error) {
	d.note("pause " + t.String())
	return control.PauseState{Paused: true}, d.fail
}
func (d *daemon) Resume() (control.PauseState, error) {
	d.note("resume")
	return control.PauseState{}, d.fail
}

func start(t *testing.T, d *daemon) *control.Client {
	t.Helper()
	path := filepath.Join(bridgetest.SockDir(t), "control.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: control.NewServer(control.Config{
		Status: d, Paths: d, Reload: d, Calls: d, Hosts: d, Tools: d, Pause: d,
		Metrics: control.NewMetrics(func() control.Gauges {
			return control.Gauges{Hosts: 2, Today: map[string]int{"done": 7}}
		}),
		Log: slog.New(slog.DiscardHandler),
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return control.NewClient(path)
}

func TestClientAndServerAgree(t *testing.T) {
	t.Parallel()
	d := &daemon{status: control.Status{Schema: control.Schema, State: control.StateReady}}
	c := start(t, d)
	ctx := t.Context()
	if s, err := c.Status(ctx); err != nil || s.State != control.StateReady {
		t.Errorf("Status = %v, %v", s.State, err)
	}
	if p, err := c.Paths(ctx); err != nil || p.Config != "/c" || p.State != "/s" {
		t.Errorf("Paths = %v, %v", p, err)
	}
	if l, err := c.Tools(ctx); err != nil || len(l.Tools) != 1 {
		t.Errorf("Tools = %v, %v", l, err)
	}
	if r, err := c.Reload(ctx); err != nil || r.Config != "applied" || len(r.Restart) != 1 {
		t.Errorf("Reload = %v, %v", r, err)
	}
	for limit, want := range map[int]int{1: 1, 2: 2, 0: 3, -5: 3, 1 << 30: 3} {
		if l, err := c.Calls(ctx, limit); err != nil || len(l.Calls) != want {
			t.Errorf("Calls(%d) = %d, %v, want %d", limit, len(l.Calls), err, want)
		}
	}
	if r, err := c.Call(ctx, "c_1"); err != nil || r.ID != "c_1" {
		t.Errorf("Call = %v, %v", r, err)
	}
	for _, do := range []func() error{
		func() error { return c.CancelCall(ctx, "c_2") },
		func() error { return c.UseHost(ctx, control.MainChoice{Name: "docs"}) },
		func() error { return c.UseHost(ctx, control.MainChoice{Auto: true}) },
		func() error { _, err := c.Pause(ctx, 90*time.Second); return err },
		func() error { _, err := c.Pause(ctx, 0); return err },
		func() error { _, err := c.Resume(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	want := []string{"cancel c_2", "use docs", "auto", "pause 1m30s", "pause 0s", "resume"}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		t.Errorf("the daemon was asked (-want +got)\n%s", diff)
	}
	page, err := c.Metrics(ctx)
	for _, line := range []string{"a2a_bridge_hosts 2\n", `a2a_bridge_calls_today{state="done"} 7`, "go_goroutines "} {
		if err != nil || !strings.Contains(string(page), line) {
			t.Errorf("Metrics = %v, %q is missing", err, line)
		}
	}
}

func TestRefusalsKeepTheirKindAndWords(t *testing.T) {
	t.Parallel()
	for _, kind := range bridge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			d := &daemon{fail: &control.Error{Kind: kind, Message: "because of " + string(kind)}}
			err := start(t, d).CancelCall(t.Context(), "c_1")
			if !errors.Is(err, kind) || err.Error() != "because of "+string(kind) {
				t.Errorf("CancelCall = %v, want the kind %q in words", err, kind)
			}
		})
	}
	c := start(t, &daemon{})
	if _, err := c.Pause(t.Context(), -time.Second); !errors.Is(err, bridge.BadArguments) {
		t.Errorf("Pause(-1s) = %v, want %v", err, bridge.BadArguments)
	}
}

func TestNobodyThereIsToldApart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(bridgetest.SockDir(t), "control.sock")
	_, err := control.NewClient(path).Status(t.Context())
	var gone *control.Unreachable
	if !errors.As(err, &gone) || gone.Path != path || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Status without a socket = %v, want Unreachable with the path", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	if _, err := control.NewClient(path).Status(t.Context()); !errors.As(err, &gone) {
		t.Errorf("Status with somebody who hangs up = %v, want Unreachable", err)
	}
}

// The keys are what people script against. Changing this file is a decision.
func TestTheKeysOfTheStatusDocument(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(control.Status{
		Hosts: []control.Host{{}}, Peers: []control.Peer{{}}, Calls: control.Calls{Open: []control.OpenCall{{}}},
		Daemon:    control.Daemon{LastStop: &control.Stop{}},
		HTTP:      control.HTTP{HeldBy: &control.Holder{}},
		Catalogue: control.Catalogue{Skipped: []bridge.Skipped{{}}}, Problems: []control.Problem{{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`
		calls.awaiting_approval calls.open.args calls.open.deadline calls.open.host calls.open.id calls.open.peer calls.open.since calls.open.state calls.open.tool
		calls.queued calls.running calls.today.cancelled calls.today.done calls.today.error calls.today.expired calls.today.refused calls.today.unknown
		catalogue.hidden catalogue.skipped.name catalogue.skipped.why catalogue.stale catalogue.tools checked_at
		daemon.activation daemon.idle_exit_at daemon.last_stop.at daemon.last_stop.reason daemon.paused_until daemon.pid daemon.running daemon.started_at daemon.version
		hosts.attached_at hosts.cwd hosts.gate hosts.kind hosts.main hosts.name hosts.path hosts.pid hosts.state hosts.title hosts.tmux hosts.tools hosts.tty hosts.version
		http.addr http.held_by.command http.held_by.pid http.held_by.uid http.listening http.tls
		main.attached main.last_left_at main.left_reason main.name main.pinned
		peers.client peers.client_version peers.era peers.expires_at peers.last_seen_at peers.running peers.token peers.tools peers.wait_s peers.waiting
		problems.fix problems.id problems.level problems.see problems.text schema state
		tasks.in.input_required tasks.in.submitted tasks.in.working tasks.out.paused tasks.out.uncertain tasks.out.watched
		tokens.active tokens.expiring tokens.refused_24h url versions.a2actl versions.daemon versions.extension versions.link`)
	got := keys("", doc)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got)\n%s", diff)
	}
}

// keys lists the paths of all leaves, sorted.
func keys(at string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			out = append(out, keys(strings.TrimPrefix(at+"."+k, "."), e)...)
		}
	case []any:
		for _, e := range v {
			out = append(out, keys(at, e)...)
		}
	default:
		out = []string{at}
	}
	slices.Sort(out)
	return out
}
