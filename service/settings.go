package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
)

// inForce holds the settings that count now.
type inForce struct{ p atomic.Pointer[settings] }

type settings struct {
	config.Config
	names    names
	problems []config.Problem // of the start: with any, the bridge does not serve
}

func (f *inForce) get() *settings { return f.p.Load() }

func (f *inForce) set(c config.Config, problems []config.Problem) {
	f.p.Store(&settings{Config: c, problems: problems,
		names: newNames(c.HTTP.AllowedHosts, c.HTTP.AllowedOrigins, c.HTTP.PublicURL)})
}

func hubSettings(c config.Config) hub.Settings {
	return hub.Settings{
		QueueMode: c.Queue.Mode, QueueWait: c.Queue.Wait, QueueCalls: c.Queue.MaxCalls, QueueBytes: c.Queue.MaxBytes,
		Concurrency: c.Limits.Concurrency, ResultBytes: c.Limits.Result,
		ApprovalTimeout: c.Approval.Timeout, ResumeGrace: c.Resume.Grace, ResumeKeep: c.Resume.Keep,
		Deny: c.Exposure.Deny, DenyMCPTools: c.Exposure.DenyMCPTools,
	}
}

// Reload reads settings and tokens again. Broken settings change nothing.
// Streams of tokens that are gone or have a new secret end.
func (d *daemon) Reload(context.Context) (control.Reloaded, error) {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	d.notify(localsock.Reloading())
	defer func() { d.notify(localsock.Ready()) }()

	d.cutOldTokens()
	next, problems := config.Load(d.paths.Config, d.cfg.Env, d.cfg.Flags)
	out := control.Reloaded{Config: "applied", Restart: []string{}, Problems: d.configProblems(problems)}
	if len(problems) > 0 {
		out.Config = "kept"
		if now := d.live.get(); len(now.problems) > 0 { // nothing else was ever in force
			d.live.set(now.Config, problems)
		} else {
			d.refused.Store(&problems)
		}
		for _, p := range out.Problems {
			d.log.Error("the configuration is broken, the old one stays", "problem", p.Text, "fix", p.Fix)
		}
		return out, nil
	}
	d.refused.Store(nil)
	before := d.live.get().Config
	for _, k := range []struct {
		name    string
		changed bool
	}{
		{"http.host", before.HTTP.Host != next.HTTP.Host},
		{"http.port", before.HTTP.Port != next.HTTP.Port},
		{"limits.body", before.Limits.Body != next.Limits.Body},
		{"audit.max_bytes", before.Audit.MaxBytes != next.Audit.MaxBytes},
		{"audit.keep", before.Audit.Keep != next.Audit.Keep},
		{"log.format", before.Log.Format != next.Log.Format},
	} {
		if k.changed {
			out.Restart = append(out.Restart, k.name)
		}
	}
	d.live.set(next, nil)
	d.level.Set(next.Log.Level)
	d.hub.Apply(hubSettings(next))
	d.log.Info("settings and tokens were read again", "restart_needed", out.Restart)
	return out, nil
}

func (d *daemon) configProblems(problems []config.Problem) []control.Problem {
	out := make([]control.Problem, 0, len(problems))
	again := "restart a2a-bridge"
	if !d.cfg.HangupStops {
		again = fmt.Sprintf("kill -HUP %d", os.Getpid())
	}
	for _, p := range problems {
		c := control.Problem{ID: "config", Level: control.Fail, Text: p.String()}
		if p.From == "" {
			c.Text = filepath.Base(d.paths.Config) + ": " + c.Text
			c.Fix = "mend " + d.paths.Config + ", then: " + again
		} else {
			c.Fix = "change " + p.From + " of a2a-bridge and start it again"
		}
		out = append(out, c)
	}
	return out
}

// refusedProblems are what is wrong with settings that a reload did not take.
func (d *daemon) refusedProblems() []control.Problem {
	refused := d.refused.Load()
	if refused == nil {
		return nil
	}
	out := d.configProblems(*refused)
	for i := range out {
		out[i].Level = control.Warn
		out[i].Text += " (the old settings stay in force)"
	}
	return out
}

// cutOldTokens ends the streams of tokens that were revoked, have expired or
// got a new secret since their holder connected.
func (d *daemon) cutOldTokens() {
	records, err := d.tokens.List()
	if err != nil {
		return // the file is broken: it admits nobody, and streams check themselves
	}
	good := map[string]time.Time{}
	for _, r := range records {
		if !r.Expired(time.Now()) {
			good[r.ID] = r.Rotated
		}
	}
	for _, p := range d.front.Peers() {
		if rotated, ok := good[p.Token]; !ok || rotated.After(d.started) && rotated.After(d.cut(p.Token)) {
			d.front.CutToken(p.Token)
			d.cuts.Store(p.Token, time.Now())
		}
	}
}

// cut is when a token's streams were ended last.
func (d *daemon) cut(token string) time.Time {
	at, _ := d.cuts.Load(token)
	t, _ := at.(time.Time)
	return t
}
