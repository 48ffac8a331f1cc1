package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
)

// expiringSoon is from when on a token counts as expiring.
const expiringSoon = 24 * time.Hour

func (d *daemon) controlHandler() http.Handler {
	return control.NewServer(control.Config{
		Status: d, Paths: d, Reload: d, Calls: d, Hosts: d, Tools: d, Pause: d,
		Metrics: control.NewMetrics(d.gauges), Log: d.log,
	})
}

// Status tells everything that the daemon knows of itself.
func (d *daemon) Status(context.Context) control.Status {
	pid, version, started := os.Getpid(), bridge.Version(), d.started
	activation := "self"
	if d.listeners.Activated {
		activation = "systemd"
	}
	s := control.Status{
		Schema: control.Schema, State: control.StateReady, CheckedAt: time.Now(), URL: d.url(),
		Daemon: control.Daemon{Running: true, PID: &pid, Version: &version, StartedAt: &started,
			Activation: &activation, LastStop: d.lastStop, IdleExitAt: known(d.idle.end())},
		HTTP:  control.HTTP{Addr: d.addr(), Listening: len(d.listeners.HTTP) > 0},
		Main:  d.mainStatus(),
		Hosts: d.hostStatus(), Peers: d.peerStatus(), Calls: d.callStatus(),
		Tokens: d.tokenStatus(), Catalogue: d.catalogueStatus(),
		Versions: control.Versions{Daemon: &version, Link: hostlink.Protocol},
		Problems: d.problems(),
	}
	s.HTTP.TLS = strings.HasPrefix(d.live.get().HTTP.PublicURL, "https:")
	stopping := d.stopping.Load()
	if stopping {
		s.HTTP.Listening = false
	} else if !s.HTTP.Listening {
		d.nameHolder(&s.HTTP)
	}
	for _, h := range d.hub.Hosts() {
		if h.Main && h.Extension != "" {
			s.Versions.Extension = &h.Extension
		}
	}
	paused, until := d.hub.Paused()
	switch {
	case stopping:
		s.State = control.StateStopping
	case paused:
		s.State = control.StatePaused
		s.Daemon.PausedUntil = known(until)
	case slices.ContainsFunc(s.Problems, func(p control.Problem) bool { return p.Level != control.Note }):
		s.State = control.StateDegraded
	}
	return s
}

// nameHolder says who has the port that systemd could not give us.
func (d *daemon) nameHolder(h *control.HTTP) {
	h.Addr = d.live.get().HTTP.Addr()
	if holder, ok := machine.PortHolder(h.Addr); ok {
		h.HeldBy = &control.Holder{UID: &holder.UID}
		if holder.PID > 0 {
			h.HeldBy.PID, h.HeldBy.Command = &holder.PID, &holder.Command
		}
	}
}

// problems are the same list for status, metrics and doctor.
func (d *daemon) problems() []control.Problem {
	out := append([]control.Problem{}, d.findings...)
	out = append(out, d.configProblems(d.live.get().problems)...)
	out = append(out, d.refusedProblems()...)
	if err := d.tokens.Problem(); err != nil {
		out = append(out, control.Problem{ID: "tokens", Level: control.Fail, Text: "nobody is let in: " + err.Error(), Fix: "mend or move away " + d.paths.Tokens})
	}
	for _, text := range d.ledger.Problems() {
		out = append(out, control.Problem{ID: "ledger", Level: control.Warn, Text: text, Fix: "look at " + d.paths.State})
	}
	for _, text := range d.hub.Problems() {
		out = append(out, control.Problem{ID: "hub", Level: control.Warn, Text: text})
	}
	for _, h := range d.hub.Hosts() {
		if len(h.Skipped) > 0 {
			out = append(out, control.Problem{ID: "catalogue", Level: control.Warn, Text: skippedText(h.Name, h.Skipped), See: "a2actl status --json"})
		}
	}
	for _, u := range d.tokens.RetiredUses() {
		out = append(out, retiredProblem(u))
	}
	return out
}

// retiredProblem tells of a token that is used although it has ended. One that
// has a newer secret needs its owner; one that was revoked is only noise.
func retiredProblem(u auth.RetiredUse) control.Problem {
	since := u.First.Local().Format("15:04")
	if u.Revoked {
		return control.Problem{ID: "token", Level: control.Note,
			Text: fmt.Sprintf("the revoked token %q is still tried (%s since %s): that client can be told to stop", u.Name, times(u.Count, "time"), since)}
	}
	return control.Problem{ID: "token", Level: control.Warn,
		Text: fmt.Sprintf("%q: %s since %s with the token retired at %s", u.Name, times(u.Count, "request"), since, u.At.Local().Format("15:04")),
		Fix:  "give that client the new one: a2actl print-remote-config " + u.Name + " --rotate"}
}

func times(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// skippedText names the tools that are not listed, the first few with the reason.
func skippedText(host string, skipped []bridge.Skipped) string {
	const shown = 3
	var parts []string
	for _, s := range skipped[:min(shown, len(skipped))] {
		parts = append(parts, fmt.Sprintf("%s (%s)", s.Name, s.Why))
	}
	if more := len(skipped) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("tools of %q that are not listed: %s", host, strings.Join(parts, ", "))
}

func (d *daemon) mainStatus() control.Main {
	m := d.hub.Main()
	out := control.Main{Attached: m.Attached, Pinned: m.Pinned, LastLeftAt: known(m.LastLeftAt)}
	if m.Name != "" {
		out.Name = &m.Name
	}
	if m.LeftReason != "" {
		out.LeftReason = &m.LeftReason
	}
	return out
}

func (d *daemon) hostStatus() []control.Host {
	out := []control.Host{}
	for _, h := range d.hub.Hosts() {
		c := control.Host{Name: h.Name, Kind: h.Kind, Version: h.Version, PID: h.PID, CWD: h.CWD, Main: h.Main,
			State: h.State, AttachedAt: h.AttachedAt, Tools: h.Tools, Path: "/mcp/" + h.Name, Gate: h.Gate}
		for _, s := range []struct {
			to   **string
			from string
		}{{&c.Title, h.Title}, {&c.TTY, h.TTY}, {&c.Tmux, h.Tmux}} {
			if s.from != "" {
				*s.to = &s.from
			}
		}
		out = append(out, c)
	}
	return out
}

func (d *daemon) peerStatus() []control.Peer {
	records, err := d.tokens.List()
	if err != nil {
		return []control.Peer{}
	}
	eras := map[string]string{}
	for _, p := range d.front.Peers() {
		eras[p.Token] = p.Era
	}
	out := []control.Peer{}
	calls := d.hub.Calls()
	for _, r := range records {
		p := control.Peer{Token: r.Name, Tools: r.Tools, WaitS: int(r.Wait.Seconds()), ExpiresAt: known(r.Expires)}
		if p.Tools == nil {
			p.Tools = []string{}
		}
		if at, client := d.tokens.Used(r.Name); !at.IsZero() {
			p.LastSeenAt, p.Client, p.ClientVersion = &at, &client.Name, &client.Version
		}
		if era, ok := eras[r.ID]; ok {
			p.Era = &era
		}
		for _, c := range calls {
			switch {
			case c.Token != r.ID:
			case c.State == bridge.Queued:
				p.Waiting++
			default:
				p.Running++
			}
		}
		out = append(out, p)
	}
	return out
}

func (d *daemon) callStatus() control.Calls {
	n := d.hub.Counts()
	out := control.Calls{Running: n.Running, Queued: n.Queued, AwaitingApproval: n.AwaitingApproval,
		Today: today(d.ledger.Today()), Open: []control.OpenCall{}}
	for _, c := range d.hub.Calls() {
		open := control.OpenCall{ID: c.ID, Peer: c.Peer, Tool: c.Tool, Host: c.Host,
			State: string(c.State), Since: c.Since, Deadline: known(c.Deadline)}
		if c.Approval {
			open.State, open.Args = control.StateAwaitingApproval, shownArgs(c.Args)
		}
		out.Open = append(out.Open, open)
	}
	return out
}

// maxShownArgs bounds what is shown of a call's arguments, in characters.
const maxShownArgs = 200

// shownArgs are arguments as their owner sees them who is asked about the call:
// the text alone when there is no other, else the JSON.
func shownArgs(args json.RawMessage) string {
	shown := string(args)
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) == nil && len(members) == 1 {
		for _, only := range members {
			shown = string(only)
		}
	}
	if runes := []rune(shown); len(runes) > maxShownArgs {
		return string(runes[:maxShownArgs]) + "…"
	}
	return shown
}

func today(n map[bridge.State]int) control.Today {
	return control.Today{Done: n[bridge.Done], Error: n[bridge.Failed], Cancelled: n[bridge.Cancelled] + n[bridge.Abandoned],
		Expired: n[bridge.Expired], Refused: n[bridge.Refused], Unknown: n[bridge.Unknown]}
}

func (d *daemon) tokenStatus() control.Tokens {
	records, err := d.tokens.List()
	refused := d.tokens.Refused24h()
	out := control.Tokens{Refused24h: &refused}
	if err != nil {
		return out
	}
	now := time.Now()
	for _, r := range records {
		if r.Expired(now) {
			continue
		}
		out.Active++
		if !r.Expires.IsZero() && r.Expires.Sub(now) < expiringSoon {
			out.Expiring++
		}
	}
	return out
}

func (d *daemon) catalogueStatus() control.Catalogue {
	out := control.Catalogue{Skipped: []bridge.Skipped{}, Stale: !d.hub.Main().Attached}
	v, err := d.hub.View("")
	if err != nil || v.Catalogue == nil {
		return out
	}
	out.Tools, out.Hidden = len(v.Catalogue.Tools), v.Catalogue.Hidden
	out.Skipped = append(out.Skipped, v.Catalogue.Skipped...)
	return out
}

// Tools names what the plain address offers.
func (d *daemon) Tools() control.ToolList {
	out := control.ToolList{Tools: []string{}}
	if v, err := d.hub.View(""); err == nil && v.Catalogue != nil {
		out.Host = v.Catalogue.Host
		for _, t := range v.Catalogue.Tools {
			out.Tools = append(out.Tools, t.Name)
		}
	}
	return out
}

// Paths tells where this daemon has its files.
func (d *daemon) Paths() control.Paths {
	p := d.paths
	return control.Paths{Config: p.Config, Agents: p.Agents, Tokens: p.Tokens, State: p.State, HostSocket: p.HostSocket, ControlSocket: p.ControlSocket}
}

func (d *daemon) gauges() control.Gauges {
	n := d.hub.Counts()
	g := control.Gauges{Hosts: len(d.hub.Hosts()), Running: n.Running, Queued: n.Queued,
		Refused: d.tokens.Refused24h(), Today: map[string]int{}, Problems: len(d.problems())}
	for _, p := range d.front.Peers() {
		g.Peers++
		g.Streams += p.Streams
	}
	for state, n := range d.ledger.Today() {
		g.Today[string(state)] = n
	}
	return g
}

// peerNames are the tokens whose holders are connected or have a call open.
func (d *daemon) peerNames() []string {
	var out []string
	for _, p := range d.front.Peers() {
		if p.Streams+p.Running > 0 || time.Since(p.LastSeen) < connectedFor {
			out = append(out, p.Name)
		}
	}
	return out
}

// connectedFor is how long a peer without an open stream, such as a stateless
// one, is shown as connected after its last request.
const connectedFor = time.Minute

// known makes an unset time null.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
