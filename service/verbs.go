package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// freeName is the first name that `/a2a token` without one tries.
const freeName = "laptop"

// verb answers what the owner types inside a host (`/a2a …`).
func (d *daemon) verb(_ context.Context, host string, r hostlink.Request) (json.RawMessage, *hostlink.Error) {
	var reply any
	var err error
	switch r.Verb {
	case hostlink.VerbStatus:
		reply = d.verbStatus(host)
	case hostlink.VerbRotate:
		reply, err = d.verbRotate(r.Name)
	case hostlink.VerbToken:
		reply, err = d.verbToken(r.Name)
	case hostlink.VerbPause:
		ms := min(max(r.ForMs, 0), math.MaxInt64/int64(time.Millisecond)) // some 290 years, not a wrapped moment
		reply = hostlink.PauseReply{Until: known(d.hub.Pause(time.Duration(ms) * time.Millisecond))}
	case hostlink.VerbResume:
		d.hub.Resume()
		reply = struct{}{}
	default:
		return nil, &hostlink.Error{Kind: hostlink.KindBadRequest, Executed: bridge.ExecutedNo,
			Message: fmt.Sprintf("this daemon (%s) does not know the verb %q: update it", bridge.Version(), r.Verb)}
	}
	if err != nil {
		return nil, verbError(err)
	}
	raw, err := json.Marshal(reply)
	if err != nil {
		return nil, verbError(err)
	}
	return raw, nil
}

func verbError(err error) *hostlink.Error {
	kind := hostlink.KindFault
	switch {
	case errors.Is(err, bridge.NotFound):
		kind = hostlink.KindNotFound
	case errors.Is(err, bridge.Conflict):
		kind = hostlink.KindConflict
	case errors.Is(err, bridge.BadArguments):
		kind = hostlink.KindBadRequest
	}
	return &hostlink.Error{Kind: kind, Message: err.Error(), Executed: bridge.ExecutedNo}
}

func (d *daemon) verbStatus(host string) hostlink.StatusReply {
	n := d.hub.Counts()
	paused, _ := d.hub.Paused()
	out := hostlink.StatusReply{Address: d.url(), Name: host, Paused: paused, Insecure: d.insecure(),
		Calls: hostlink.StatusCalls{Running: n.Running, Waiting: n.Queued, Today: today(d.ledger.Today()).Total()}}
	for _, h := range d.hub.Hosts() {
		if h.Name == host {
			out.Main = h.Main
		}
	}
	if out.Address != "" && !out.Main {
		out.Address += "/" + host
	}
	records, err := d.tokens.List()
	if err != nil {
		return out // status on the control socket says why
	}
	for _, r := range records {
		t := hostlink.StatusToken{Name: r.Name}
		if at, client := d.tokens.Used(r.Name); !at.IsZero() {
			t.LastUsed, t.Client = &at, client.Name
		}
		out.Tokens = append(out.Tokens, t)
	}
	return out
}

func (d *daemon) verbRotate(name string) (hostlink.SecretReply, error) {
	secret, record, err := d.tokens.Rotate(name, 0)
	if err != nil {
		return hostlink.SecretReply{}, err
	}
	d.front.CutToken(record.ID)
	return hostlink.SecretReply{Name: record.Name, Token: secret.Reveal()}, nil
}

func (d *daemon) verbToken(name string) (hostlink.SecretReply, error) {
	taken := map[string]bool{}
	for _, n := range d.tokenNames() {
		taken[n] = true
	}
	for i := 2; name == ""; i++ {
		switch candidate := fmt.Sprintf("%s-%d", freeName, i); {
		case !taken[freeName]:
			name = freeName
		case !taken[candidate]:
			name = candidate
		}
	}
	secret, record, err := d.tokens.Create(auth.CreateOptions{Name: name})
	if err != nil {
		return hostlink.SecretReply{}, err
	}
	return hostlink.SecretReply{Name: record.Name, Token: secret.Reveal()}, nil
}
