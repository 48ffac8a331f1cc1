package control

import (
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Schema is the version of the status document; it grows when a key changes
// its meaning, which none has yet.
const Schema = 1

// The states of the bridge as a whole, worst first in the order of Worse.
const (
	StateReady       = "ready"
	StateDegraded    = "degraded" // answers, but something that its owner should mend is wrong
	StatePaused      = "paused"
	StateStopping    = "stopping" // takes no more calls; the open ones finish first
	StateUnreachable = "unreachable"
)

// Status is the whole of `a2actl status --json`. A null means "not known"; no
// key is ever absent.
type Status struct {
	Schema    int       `json:"schema"`
	State     string    `json:"state"`
	CheckedAt time.Time `json:"checked_at"`
	URL       string    `json:"url"`
	Daemon    Daemon    `json:"daemon"`
	HTTP      HTTP      `json:"http"`
	Main      Main      `json:"main"`
	Hosts     []Host    `json:"hosts"`
	Peers     []Peer    `json:"peers"`
	Calls     Calls     `json:"calls"`
	Tasks     Tasks     `json:"tasks"`
	Tokens    Tokens    `json:"tokens"`
	Catalogue Catalogue `json:"catalogue"`
	Versions  Versions  `json:"versions"`
	Problems  []Problem `json:"problems"`
}

// Daemon is the process that answers, or the lack of one.
type Daemon struct {
	Running     bool       `json:"running"`
	PID         *int       `json:"pid"`
	Version     *string    `json:"version"`
	StartedAt   *time.Time `json:"started_at"`
	Activation  *string    `json:"activation"` // systemd, self or launchd
	LastStop    *Stop      `json:"last_stop"`
	IdleExitAt  *time.Time `json:"idle_exit_at"`
	PausedUntil *time.Time `json:"paused_until"` // far in the future while paused without a limit
}

// Stop says when and why the daemon before this one ended.
type Stop struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// HTTP is the address that peers use.
type HTTP struct {
	Addr      string  `json:"addr"`
	Listening bool    `json:"listening"`
	HeldBy    *Holder `json:"held_by"` // the process that has our port instead of us
	TLS       bool    `json:"tls"`
}

// Holder is a process that listens on a port.
type Holder struct {
	PID     *int    `json:"pid"`
	UID     *int    `json:"uid"`
	Command *string `json:"command"`
}

// Main is the session behind the plain address.
type Main struct {
	Name       *string    `json:"name"`
	Attached   bool       `json:"attached"`
	Pinned     bool       `json:"pinned"`
	LastLeftAt *time.Time `json:"last_left_at"`
	LeftReason *string    `json:"left_reason"`
}

// Host is one attached host.
type Host struct {
	Name       string    `json:"name"`
	Title      *string   `json:"title"` // the session's own name
	Kind       string    `json:"kind"`
	Version    string    `json:"version"`
	PID        int       `json:"pid"`
	CWD        string    `json:"cwd"`
	Main       bool      `json:"main"`
	State      string    `json:"state"` // idle, busy, not_ready or frozen
	AttachedAt time.Time `json:"attached_at"`
	Tools      int       `json:"tools"`
	TTY        *string   `json:"tty"`
	Tmux       *string   `json:"tmux"`
	Path       string    `json:"path"` // of its address
	Gate       bool      `json:"gate"` // asks its owner by its own rules before a tool runs
}

// Peer is a token and what its holder does with it.
type Peer struct {
	Token         string     `json:"token"` // its name
	Client        *string    `json:"client"`
	ClientVersion *string    `json:"client_version"`
	Era           *string    `json:"era"`
	LastSeenAt    *time.Time `json:"last_seen_at"`
	Running       int        `json:"running"`
	Waiting       int        `json:"waiting"`
	Tools         []string   `json:"tools"` // globs; empty means all
	ExpiresAt     *time.Time `json:"expires_at"`
	WaitS         int        `json:"wait_s"`
}

// Calls counts and lists what peers do now and did today.
type Calls struct {
	Running          int        `json:"running"`
	Queued           int        `json:"queued"`
	AwaitingApproval int        `json:"awaiting_approval"`
	Today            Today      `json:"today"`
	Open             []OpenCall `json:"open"`
}

// Today counts the calls that ended since midnight.
type Today struct {
	Done      int `json:"done"`
	Error     int `json:"error"`
	Cancelled int `json:"cancelled"`
	Expired   int `json:"expired"`
	Refused   int `json:"refused"`
	Unknown   int `json:"unknown"`
}

// Total adds them up.
func (t Today) Total() int {
	return t.Done + t.Error + t.Cancelled + t.Expired + t.Refused + t.Unknown
}

// OpenCall is a call that is not over.
type OpenCall struct {
	ID       bridge.CallID `json:"id"`
	Peer     string        `json:"peer"`
	Tool     string        `json:"tool"`
	Host     string        `json:"host"`
	Args     string        `json:"args"`  // while it awaits approval, shortened; never stored
	State    string        `json:"state"` // queued, handed over, running or awaiting approval
	Since    time.Time     `json:"since"`
	Deadline *time.Time    `json:"deadline"`
}

// The state of an open call that its owner has to look at.
const StateAwaitingApproval = "awaiting approval"

// Tasks counts A2A work in both directions.
type Tasks struct {
	In  TasksIn  `json:"in"`
	Out TasksOut `json:"out"`
}

// TasksIn is work given to this omp.
type TasksIn struct {
	Submitted     int `json:"submitted"`
	Working       int `json:"working"`
	InputRequired int `json:"input_required"`
}

// TasksOut is work that this omp gave to others.
type TasksOut struct {
	Watched   int `json:"watched"`
	Uncertain int `json:"uncertain"`
	Paused    int `json:"paused"`
}

// Tokens counts them.
type Tokens struct {
	Active     int  `json:"active"`
	Expiring   int  `json:"expiring"` // within a day
	Refused24h *int `json:"refused_24h"`
}

// Catalogue is what the plain address offers.
type Catalogue struct {
	Tools   int              `json:"tools"`
	Hidden  int              `json:"hidden"`
	Skipped []bridge.Skipped `json:"skipped"`
	Stale   bool             `json:"stale"` // remembered from a host that is gone
}

// Versions of the parts that must fit together.
type Versions struct {
	A2actl    *string `json:"a2actl"`
	Daemon    *string `json:"daemon"`
	Extension *string `json:"extension"` // as the attached main host reports it
	Link      string  `json:"link"`
}

// Problem is something that the owner should know. Its id is stable: doctor
// uses the same.
type Problem struct {
	ID    string `json:"id"`
	Level string `json:"level"` // note, warn or fail
	Text  string `json:"text"`
	Fix   string `json:"fix"`
	See   string `json:"see"`
}

// The levels of a problem. A note is worth knowing, but nothing has to be
// mended: it leaves the bridge ready.
const (
	Note = "note"
	Warn = "warn"
	Fail = "fail"
)
