package hub

import (
	"encoding/json"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
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
