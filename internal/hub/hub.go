package hub

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// What to do with a call while nobody can run it.
const (
	QueueMode  = "queue"
	RejectMode = "reject"
)

// Settings are what the owner can change while the hub runs.
type Settings struct {
	QueueMode       string // queue or reject
	QueueWait       time.Duration
	QueueCalls      int   // per host
	QueueBytes      int64 // of arguments, per host
	Concurrency     int   // calls at a host at the same time
	ResultBytes     int64
	ApprovalTimeout time.Duration
	ResumeGrace     time.Duration // how long a lost host may take to come back with its calls
	ResumeKeep      time.Duration // how long a result is kept for a caller who resumes
	Deny            []string      // globs over tool names
	DenyMCPTools    bool
}

// Defaults are the settings of a bridge without a configuration.
func Defaults() Settings {
	return Settings{
		QueueMode: QueueMode, QueueWait: time.Minute, QueueCalls: 64, QueueBytes: 16 << 20,
		Concurrency: 32, ResultBytes: 16 << 20, ApprovalTimeout: 5 * time.Minute,
		ResumeGrace: 10 * time.Second, ResumeKeep: 2 * time.Minute,
	}
}

// Ledger is where calls are written down; internal/audit has it.
type Ledger interface {
	// Start is durable when it returns nil and sync is set.
	Start(s bridge.CallStart, sync bool) error
	// End is durable when it returns nil, if the start was.
	End(e bridge.CallEnd) error
	// Open lists the starts without an end that an earlier process left.
	Open() []bridge.CallStart
}

// Config is what a Hub is made of.
type Config struct {
	Settings
	Ledger     Ledger
	StateDir   string          // for hosts.json, catalogue.json and paused.json
	Address    func() string   // of main, for the notice that a host shows
	Version    string          // of the daemon
	Insecure   func() bool     // listening beyond loopback
	TokenNames func() []string // for the same notice
	// Requests answers the verbs that a host sends; nil refuses them.
	Requests func(ctx context.Context, host string, r hostlink.Request) (json.RawMessage, *hostlink.Error)
	Now      func() time.Time
	Log      *slog.Logger
	// OwnTool reports that a tool is one of this bridge's own, come back
	// through the host's MCP client; nil leaves it to the hub's own rule.
	OwnTool func(bridge.Tool) bool
}

// ErrDetached is what Call and Join return when the caller stopped watching a
// call that goes on.
var ErrDetached = errors.New("the call goes on unwatched")
