package ctl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

func newStatusCmd(a *app) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "is it reachable, who is attached, who calls, what waits",
		Example: "  a2actl status\n  a2actl status --json | jq -r .state",
		Long: `Connects to the daemon (and so wakes a sleeping one), and says how things are.
Exit code 0: reachable, with or without an omp session; 3: not reachable;
with --check also 1: reachable, but something needs mending.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.status(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				err = a.emit(s)
			} else {
				err = a.print(statusText(s, a.now(), a.columns))
			}
			switch {
			case err != nil:
				return err
			case s.State == control.StateUnreachable:
				return silent(exitUnreachable)
			case check && needsMending(s):
				return silent(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "exit 1 if anything needs mending")
	return cmd
}

// status is the daemon's word completed by what this side sees. An error means
// that not even the paths could be worked out.
func (a *app) status(ctx context.Context) (control.Status, error) {
	paths, err := a.paths()
	if err != nil {
		return control.Status{}, err
	}
	version := bridge.Version()
	s, err := control.NewClient(paths.ControlSocket).Status(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return control.Status{}, ctx.Err()
		}
		s = a.unreachable(ctx, paths, err)
	} else {
		s.Problems = append(s.Problems, a.disagreements(ctx, paths, s)...)
	}
	s.Versions.A2actl = &version
	if s.Problems == nil {
		s.Problems = []control.Problem{}
	}
	if needsMending(s) && s.State == control.StateReady {
		s.State = control.StateDegraded
	}
	return s, nil
}

// needsMending reports whether there is more than notes.
func needsMending(s control.Status) bool {
	return slices.ContainsFunc(s.Problems, func(p control.Problem) bool { return p.Level != control.Note })
}

// disagreements are the problems that only this side can see.
func (a *app) disagreements(ctx context.Context, paths config.Paths, s control.Status) []control.Problem {
	var out []control.Problem
	if v := deref(s.Versions.Daemon); v != bridge.Version() {
		out = append(out, control.Problem{ID: "version", Level: control.Warn,
			Text: fmt.Sprintf("the daemon is %s, a2actl is %s", v, bridge.Version()), Fix: a.restartHint()})
	}
	if deref(s.Daemon.Activation) == "systemd" && machine.Linger(a.user()) == machine.No {
		out = append(out, control.Problem{ID: "linger", Level: control.Warn,
			Text: "linger is off: the bridge sleeps when your last login here ends",
			Fix:  "loginctl enable-linger      (if refused: sudo loginctl enable-linger $USER)"})
	}
	theirs, err := control.NewClient(paths.ControlSocket).Paths(ctx)
	if err == nil && (theirs.Config != paths.Config || theirs.Tokens != paths.Tokens || theirs.State != paths.State) {
		out = append(out, control.Problem{ID: "paths", Level: control.Warn,
			Text: fmt.Sprintf("the daemon uses %s and %s, this shell %s and %s", theirs.Config, theirs.State, paths.Config, paths.State),
			Fix:  "unset XDG_CONFIG_HOME XDG_STATE_HOME A2A_BRIDGE_CONFIG", See: "a2actl paths"})
	}
	return out
}

// unreachable is the whole document when nobody answers: why, and what to type.
func (a *app) unreachable(ctx context.Context, paths config.Paths, cause error) control.Status {
	cfg, broken := config.Load(paths.Config, a.environ, nil)
	addr := cfg.HTTP.Addr()
	units, unmanaged := a.lookUnits(ctx)
	if unmanaged == nil && units.socket().Found() {
		addr = address(units.port()) // the socket unit decides
	}
	s := control.Status{
		Schema: control.Schema, State: control.StateUnreachable, CheckedAt: a.now(),
		URL:   fmt.Sprintf("http://%s/mcp", addr),
		HTTP:  control.HTTP{Addr: addr},
		Hosts: []control.Host{}, Peers: []control.Peer{},
		Calls:     control.Calls{Open: []control.OpenCall{}},
		Catalogue: control.Catalogue{Skipped: []bridge.Skipped{}},
	}
	add := func(p control.Problem) { s.Problems = append(s.Problems, p) }
	for _, p := range broken {
		add(configProblem(paths.Config, p))
	}
	var gone *control.Unreachable
	socket := units.socket()
	tried := socket.Active == "active" || socket.Active == "failed"
	switch {
	case socket.Enabled == "enabled" && socket.Active == "inactive":
		add(control.Problem{ID: "daemon", Level: control.Fail, Text: packaging.HTTPSocket + " is enabled, not started", Fix: "systemctl --user start " + packaging.HTTPSocket})
	case tried:
		add(a.unitProblem(ctx, units.port(), cause))
	case errors.As(cause, &gone):
		add(control.Problem{ID: "daemon", Level: control.Fail, Text: goneText(gone), Fix: a.startHint()})
	default:
		add(control.Problem{ID: "daemon", Level: control.Fail, Text: cause.Error(), Fix: a.restartHint()})
	}
	if len(broken) > 0 && !socket.Found() { // where it would listen is not known then
		s.URL, s.HTTP.Addr = "", ""
		return s
	}
	if holder, held := machine.PortHolder(addr); held && socket.Active != "active" {
		s.HTTP.HeldBy = &control.Holder{}
		text := fmt.Sprintf("%s is held by %s", addr, holder)
		if holder.PID > 0 {
			s.HTTP.HeldBy.PID, s.HTTP.HeldBy.Command = &holder.PID, &holder.Command
		}
		s.HTTP.HeldBy.UID = &holder.UID
		fix := "stop it, or choose another http.port in " + paths.Config
		if socket.Found() {
			fix = "stop it, or choose another port: a2actl setup --port auto"
		}
		if !tried { // else it has been said
			add(control.Problem{ID: "port", Level: control.Fail, Text: text, Fix: fix})
		}
	}
	return s
}

// configProblem says what is wrong with a setting, and where to mend it.
func configProblem(file string, p config.Problem) control.Problem {
	out := control.Problem{ID: "config", Level: control.Fail, Text: p.String(), Fix: "mend " + p.From}
	if p.From == "" {
		out.Text, out.Fix = filepath.Base(file)+": "+p.String(), "mend "+file
	}
	return out
}

// statusText is the page for people.
func statusText(s control.Status, now time.Time, width int) string {
	var b strings.Builder
	b.WriteString(strings.Join(flow(width, "   ", headline(s, now)), "\n") + "\n")
	inner := max(width-labelWidth, min(width, 1)) // no width stays none
	if s.State != control.StateUnreachable {
		writeSection(&b, "omp", hostLines(s, now, inner))
		writeSection(&b, "peers", peerLines(s, now, inner))
		writeSection(&b, "calls", callLines(s, now))
	}
	for _, p := range s.Problems {
		lines := []string{clean(p.Text)}
		if p.Fix != "" {
			lines = append(lines, "fix: "+clean(p.Fix))
		}
		if p.See != "" {
			lines = append(lines, "see: "+clean(p.See))
		}
		writeSection(&b, p.Level, lines)
	}
	return b.String()
}

// headline is the first line in its parts.
func headline(s control.Status, now time.Time) []string {
	name := strings.TrimSpace("a2a-bridge " + shortVersion(deref(s.Daemon.Version)))
	state, next := s.State, ""
	switch {
	case s.State == control.StateUnreachable && s.URL == "":
		return []string{name, "not running"}
	case s.State == control.StateUnreachable:
		return []string{name, "not running", s.URL}
	case s.State == control.StateStopping:
		if n := s.Calls.Running; n == 1 {
			state += ", 1 call finishes first"
		} else if n > 1 {
			state += fmt.Sprintf(", %d calls finish first", n)
		}
		return []string{name, state}
	case s.State == control.StatePaused:
		next = "(a2actl resume)"
		if until := s.Daemon.PausedUntil; until != nil && until.Sub(now) < foreverAfter {
			state += ", " + left(until.Sub(now)) + " left"
		}
	case !s.HTTP.Listening:
		state += ", no HTTP port"
	}
	if len(s.Hosts) == 0 {
		state += ", no omp session"
	}
	parts := []string{name, state}
	if next != "" {
		parts = append(parts, next)
	}
	parts = append(parts, s.URL)
	if s.Daemon.StartedAt != nil && len(s.Hosts) > 0 {
		parts = append(parts, "up "+span(now.Sub(*s.Daemon.StartedAt)))
	}
	return parts
}

// foreverAfter is from when on "paused until" means "until somebody resumes".
const foreverAfter = 365 * 24 * time.Hour

func hostLines(s control.Status, now time.Time, width int) []string {
	if len(s.Hosts) == 0 {
		return noHostLines(s, now)
	}
	rows := make([][]string, 0, len(s.Hosts))
	for _, h := range s.Hosts {
		role, where := "", h.Path
		if h.Main {
			role, where = "main", ""
			if s.Main.Pinned {
				role = "main, pinned"
			}
		}
		if h.Tmux != nil && *h.Tmux != "" {
			where = strings.TrimSpace("tmux " + clean(*h.Tmux) + "  " + where)
		}
		kind := ""
		if h.Kind != "omp" {
			kind = clean(h.Kind)
			if !h.Gate {
				kind += ", no approval gate"
			}
		}
		rows = append(rows, []string{clean(h.Name), role, strings.ReplaceAll(clean(h.State), "_", " "),
			fmt.Sprintf("%d tools", h.Tools), "attached " + span(now.Sub(h.AttachedAt)), where, kind})
	}
	return table(width, nil, rows)
}

func noHostLines(s control.Status, now time.Time) []string {
	line := "none yet"
	if s.Main.LastLeftAt != nil {
		line = "none since " + s.Main.LastLeftAt.Local().Format("15:04")
		if now.Sub(*s.Main.LastLeftAt) > 20*time.Hour {
			line = "none for " + span(now.Sub(*s.Main.LastLeftAt))
		}
		if s.Main.Name != nil {
			line += fmt.Sprintf(" (%q left", clean(*s.Main.Name))
			if s.Main.LeftReason != nil {
				line += ": " + clean(*s.Main.LeftReason)
			}
			line += ")"
		}
	}
	if s.Calls.Queued > 0 {
		line += "; " + count(s.Calls.Queued, "call") + " waiting"
		if d := firstDeadline(s.Calls.Open, string(bridge.Queued)); d != nil {
			line += ", " + left(d.Sub(now)) + " left"
		}
	}
	return []string{line, "fix: start omp, or wait for it in a script: a2actl wait --host --timeout 60s"}
}

func peerLines(s control.Status, now time.Time, width int) []string {
	if len(s.Peers) == 0 {
		return []string{"none: nobody has a token. Make one with its config: a2actl print-remote-config laptop"}
	}
	rows := make([][]string, 0, len(s.Peers))
	for _, p := range s.Peers {
		doing := "never used"
		switch {
		case p.Running+p.Waiting > 0:
			doing = fmt.Sprintf("%d running", p.Running)
			if p.Waiting > 0 {
				doing += fmt.Sprintf(", %d waiting", p.Waiting)
			}
		case p.LastSeenAt != nil:
			doing = "last seen " + ago(now, *p.LastSeenAt)
		}
		ends := ""
		if p.ExpiresAt != nil {
			ends = "ends " + in(now, *p.ExpiresAt)
		}
		rows = append(rows, []string{clean(p.Token), clean(deref(p.Client)), doing, clean(strings.Join(p.Tools, ",")), ends})
	}
	return table(width, nil, rows)
}

func callLines(s control.Status, now time.Time) []string {
	lines := []string{}
	if n := s.Calls.AwaitingApproval; n > 0 {
		first := fmt.Sprintf("%d waiting for your approval", n)
		if d := firstDeadline(s.Calls.Open, control.StateAwaitingApproval); d != nil {
			first += ", " + left(d.Sub(now)) + " left"
		}
		lines = append(lines, first)
		for _, c := range s.Calls.Open {
			if c.State == control.StateAwaitingApproval {
				lines = append(lines, approvalLines(c, s.Hosts)...)
			}
		}
	}
	t := s.Calls.Today
	line := fmt.Sprintf("%d running, %d waiting", s.Calls.Running, s.Calls.Queued)
	if t.Total() > 0 {
		var parts []string
		for _, p := range []struct {
			n    int
			word string
		}{{t.Done, "done"}, {t.Error, "errors"}, {t.Cancelled, "cancelled"}, {t.Expired, "expired"}, {t.Refused, "refused"}, {t.Unknown, "may have run"}} {
			if p.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
			}
		}
		line = fmt.Sprintf("%-28s  today %d: %s", line, t.Total(), strings.Join(parts, ", "))
	}
	return append(lines, line)
}

func approvalLines(c control.OpenCall, hosts []control.Host) []string {
	tool := strings.TrimSpace(clean(c.Tool) + " " + clean(c.Args))
	line := fmt.Sprintf("%s  %s  %s  in omp %q", c.ID, clean(c.Peer), tool, clean(c.Host))
	refuse := "refuse: a2actl calls cancel " + string(c.ID)
	for _, h := range hosts {
		switch {
		case h.Name != c.Host:
		case deref(h.Tmux) != "":
			pane := clean(*h.Tmux)
			return []string{line + ", tmux " + pane, fmt.Sprintf("go there: tmux attach -t %-12s  %s", pane, refuse)}
		case deref(h.TTY) != "":
			line += ", " + clean(*h.TTY)
		}
	}
	return []string{line, refuse}
}

func firstDeadline(open []control.OpenCall, state string) *time.Time {
	var first *time.Time
	for _, c := range open {
		if c.State == state && c.Deadline != nil && (first == nil || c.Deadline.Before(*first)) {
			first = c.Deadline
		}
	}
	return first
}
