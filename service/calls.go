package service

import (
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/audit"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

// Recent lists the newest calls: first those that are open, from the hub, then
// what the ledger has.
func (d *daemon) Recent(n int) ([]control.CallRecord, error) {
	var out []control.CallRecord
	open := map[bridge.CallID]bool{}
	for _, c := range d.hub.Calls() {
		open[c.ID] = true
		out = append(out, openRecord(c))
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].ReceivedAt.After(*out[j].ReceivedAt) })
	past, err := d.ledger.Recent(n)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	for _, r := range past {
		if !open[r.ID] {
			out = append(out, pastRecord(r))
		}
	}
	return out[:min(n, len(out))], nil
}

// Show tells all about one call.
func (d *daemon) Show(id bridge.CallID) (control.CallRecord, error) {
	for _, c := range d.hub.Calls() {
		if c.ID == id {
			return openRecord(c), nil
		}
	}
	r, err := d.ledger.Show(id)
	switch {
	case errors.Is(err, bridge.NotFound):
		return control.CallRecord{}, &control.Error{Kind: bridge.NotFound, Message: fmt.Sprintf("no call %q is known: it is older than the ledger, or there never was one", id)}
	case err != nil:
		return control.CallRecord{}, fmt.Errorf("look for call %q: %w", id, err)
	}
	return pastRecord(r), nil
}

// Cancel ends one open call in its owner's name.
func (d *daemon) Cancel(id bridge.CallID) error {
	if d.hub.Cancel(func(c bridge.Call) bool { return c.ID == id }, bridge.CancelledHere) == 0 {
		return &control.Error{Kind: bridge.NotFound, Message: fmt.Sprintf("no call %q is open", id)}
	}
	return nil
}

// Use pins a host.
func (d *daemon) Use(name string) error { return d.hub.Use(name) }

// UseAuto unpins.
func (d *daemon) UseAuto() error {
	d.hub.UseAuto()
	return nil
}

// Pause stops calls from starting.
func (d *daemon) Pause(t time.Duration) (control.PauseState, error) {
	return control.PauseState{Paused: true, Until: known(d.hub.Pause(t))}, nil
}

// Resume lets them start again.
func (d *daemon) Resume() (control.PauseState, error) {
	d.hub.Resume()
	return control.PauseState{}, nil
}

func openRecord(c hub.CallStatus) control.CallRecord {
	state := string(c.State)
	if c.Approval {
		state = control.StateAwaitingApproval
	}
	received := c.Received
	r := control.CallRecord{ID: c.ID, Peer: c.Peer, Client: c.Client.Name, Tool: c.Tool, Host: c.Host, State: state,
		ReceivedAt: &received, ArgsBytes: len(c.Args)}
	return r
}

func pastRecord(r audit.Record) control.CallRecord {
	out := control.CallRecord{ID: r.ID, State: string(bridge.Running)}
	if s := r.Start; s != nil {
		out.Peer, out.Client, out.Tool, out.Host, out.ArgsBytes = s.Peer, s.Client, s.Tool, s.Host, s.ArgsBytes
		out.ReceivedAt, out.HandedAt = known(s.Received), known(s.At)
	}
	if e := r.End; e != nil {
		out.Peer, out.Client, out.Tool, out.Host = e.Peer, e.Client, e.Tool, e.Host
		out.State, out.Kind, out.Executed, out.EndedAt = string(e.State), e.Kind, e.Executed, known(e.At)
		out.WaitedMS, out.RanMS, out.Bytes = e.Waited.Milliseconds(), e.Ran.Milliseconds(), e.Bytes
		if out.ReceivedAt == nil {
			out.ReceivedAt = known(e.At.Add(-e.Waited - e.Ran))
		}
	}
	out.RanLate = r.Late != nil
	return out
}
