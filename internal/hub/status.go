package hub

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// States of a host, as status shows them.
const (
	HostIdle     = "idle"
	HostBusy     = "busy"
	HostNotReady = "not_ready" // attached, but it has no session or no catalogue yet
	HostFrozen   = "frozen"    // silent on a link that is still open
)

// HostStatus is one attached host.
type HostStatus struct {
	Name       string
	Title      string // the session's own name
	Kind       string
	Version    string
	Extension  string
	PID        int
	CWD        string
	Main       bool
	Gate       bool // asks its owner by its own rules before a tool runs
	State      string
	AttachedAt time.Time
	Tools      int
	Hidden     int
	Skipped    []bridge.Skipped
	TTY        string
	Tmux       string
	Running    int
	Waiting    int
}

// CallStatus is one call that is not over.
type CallStatus struct {
	ID       bridge.CallID
	Peer     string
	Token    string
	Client   bridge.Client
	Tool     string
	Args     json.RawMessage // for the owner's eyes, never stored
	Host     string          // where it runs or whom it waits for; empty: whoever comes first
	State    bridge.State
	Approval bool // the host waits for its owner
	Received time.Time
	Since    time.Time // it is in this state
	Deadline time.Time // of the wait or the approval; zero: none
}

// MainStatus is the host behind the plain address.
type MainStatus struct {
	Name       string // empty: there never was one
	Attached   bool
	Pinned     bool
	LastLeftAt time.Time // zero: attached, or never seen to leave
	LeftReason string
}

// Counts of the calls that are not over.
type Counts struct {
	Running          int // handed over, waiting for an approval included
	Queued           int
	AwaitingApproval int
}

// Hosts lists the attached hosts, main first, then by name.
func (h *Hub) Hosts() []HostStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []HostStatus{}
	for _, ho := range h.hosts {
		if ho.link == nil {
			continue
		}
		c := h.viewOf(ho.name).catalogue
		s := HostStatus{
			Name: ho.name, Title: ho.session.Name, Kind: ho.hello.Kind, Version: ho.hello.Version,
			Extension: ho.hello.Extension, PID: ho.hello.PID, CWD: ho.hello.CWD, Main: ho.name == h.names.Main,
			Gate: ho.hello.Gate, State: h.hostState(ho), AttachedAt: ho.attachedAt,
			Tools: len(c.Tools), Hidden: c.Hidden, Skipped: c.Skipped, TTY: ho.hello.TTY, Tmux: ho.hello.Tmux,
			Running: ho.slots,
		}
		if q := h.queues[ho.name]; q != nil {
			s.Waiting = len(q.calls)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b HostStatus) int {
		if a.Main != b.Main {
			if a.Main {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func (h *Hub) hostState(ho *host) string {
	switch {
	case h.frozen(ho):
		return HostFrozen
	case !ho.listed || ho.state == hostlink.StateNotReady:
		return HostNotReady
	case ho.state == hostlink.StateBusy:
		return HostBusy
	default:
		return HostIdle
	}
}

// Calls lists the calls that are not over, oldest first.
func (h *Hub) Calls() []CallStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := []*call{}
	for _, c := range h.calls {
		if !c.state.Final() {
			open = append(open, c)
		}
	}
	sortByArrival(open)
	out := make([]CallStatus, 0, len(open))
	for _, c := range open {
		s := CallStatus{
			ID: c.ID, Peer: c.Peer.Name, Token: c.Peer.Token, Client: c.Client, Tool: c.Tool, Args: c.Args,
			Host: c.target, State: c.state, Approval: !c.approvalBy.IsZero(), Received: c.received, Since: c.since,
		}
		switch {
		case c.state == bridge.Queued:
			s.Deadline = c.deadline
		case s.Approval:
			s.Deadline = c.approvalBy.Add(-approvalSlack)
		}
		if c.state != bridge.Queued {
			s.Host = c.hostName
		}
		out = append(out, s)
	}
	return out
}

// Counts counts them.
func (h *Hub) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n Counts
	for _, c := range h.calls {
		switch {
		case c.state.Final():
		case c.state == bridge.Queued:
			n.Queued++
		default:
			n.Running++
			if !c.approvalBy.IsZero() {
				n.AwaitingApproval++
			}
		}
	}
	return n
}

func sortByArrival(calls []*call) {
	slices.SortStableFunc(calls, func(a, b *call) int { return a.received.Compare(b.received) })
}
