package control

import (
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Paths are the places that a process uses, by the names that `a2actl paths`
// prints.
type Paths struct {
	Config        string `json:"config"`
	Agents        string `json:"agents"`
	Tokens        string `json:"tokens"`
	State         string `json:"state"`
	HostSocket    string `json:"host_socket"`
	ControlSocket string `json:"control_socket"`
}

// CallRecord is one call as `a2actl calls` shows it: open or over.
type CallRecord struct {
	ID         bridge.CallID   `json:"id"`
	Peer       string          `json:"peer"`
	Client     string          `json:"client"`
	Tool       string          `json:"tool"`
	Host       string          `json:"host"`
	State      string          `json:"state"`
	Kind       bridge.Kind     `json:"kind"`     // why it ended so; empty when the tool answered
	Executed   bridge.Executed `json:"executed"` // empty while open
	ReceivedAt *time.Time      `json:"received_at"`
	HandedAt   *time.Time      `json:"handed_over_at"`
	EndedAt    *time.Time      `json:"ended_at"`
	WaitedMS   int64           `json:"waited_ms"`
	RanMS      int64           `json:"ran_ms"`
	ArgsBytes  int             `json:"args_bytes"`
	Bytes      int             `json:"result_bytes"`
	RanLate    bool            `json:"ran_late"`
}

// CallList is the answer to a listing, newest first.
type CallList struct {
	Calls []CallRecord `json:"calls"`
}

// Reloaded says what a reload took over. With problems in the configuration
// the daemon goes on with what it had.
type Reloaded struct {
	Config   string    `json:"config"`  // applied or kept
	Restart  []string  `json:"restart"` // changed keys that need a restart
	Problems []Problem `json:"problems"`
}

// PauseState says until when no call starts.
type PauseState struct {
	Paused bool       `json:"paused"`
	Until  *time.Time `json:"until"` // null: until resumed
}

// MainChoice names the host behind the plain address; Auto lets the daemon pick.
type MainChoice struct {
	Name string `json:"name"`
	Auto bool   `json:"auto"`
}

// ToolList names the tools behind the plain address, denied ones left out.
type ToolList struct {
	Host  string   `json:"host"`
	Tools []string `json:"tools"`
}

type pauseRequest struct {
	ForMS int64 `json:"for_ms"`
}

// Error is a refusal by the daemon, in words for a person.
type Error struct {
	Kind    bridge.Kind `json:"kind"`
	Message string      `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Unwrap lets errors.Is find the kind.
func (e *Error) Unwrap() error { return e.Kind }
