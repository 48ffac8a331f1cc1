package hostlink

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Protocol is the version of the link that this package speaks.
const Protocol = "1.0"

const (
	// MaxFrame bounds one line, its newline not counted: a 16 MiB result may
	// double when its bytes are escaped.
	MaxFrame = 32 << 20
	// MaxProgress bounds the text of one progress event.
	MaxProgress = 4 << 10
)

// Requests.
const (
	MethodHello   = "hello"
	MethodCall    = "call"
	MethodRequest = "request"
	MethodPing    = "ping"
)

// Events, each about a request.
const (
	MethodAccepted = "accepted"
	MethodProgress = "progress"
	MethodApproval = "approval"
	MethodCancel   = "cancel"
)

// Notices.
const (
	MethodTools = "tools"
	MethodState = "state"
	MethodBye   = "bye"
	MethodLate  = "late"
	MethodAck   = "ack"
	MethodYou   = "you"
	MethodFault = "fault"
)

// States of a host.
const (
	StateIdle     = "idle"
	StateBusy     = "busy"
	StateNotReady = "notReady"
)

// States of an approval.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved"
	ApprovalDenied   = "denied"
)

// Reasons of a bye.
const (
	ByeClosed = "closed"
	ByeReload = "reload"
	ByeError  = "error"
)

// Answers about the catalogue in a Welcome.
const (
	CatalogueKnown = "known"
	CatalogueSend  = "send"
)

// Verbs of Request.
const (
	VerbStatus = "status"
	VerbRotate = "rotate"
	VerbToken  = "token"
	VerbPause  = "pause"
	VerbResume = "resume"
)

// Kinds of Error.
const (
	KindProtocol       = "protocol"
	KindConflict       = "conflict"
	KindBadHello       = "badHello"
	KindUnknownMethod  = "unknownMethod"
	KindUnknownTool    = "unknownTool"
	KindBadArguments   = "badArguments"
	KindNotReady       = "notReady"
	KindNoGate         = "noGate"
	KindDenied         = "denied"
	KindNotApproved    = "notApproved"
	KindCancelled      = "cancelled"
	KindResultTooLarge = "resultTooLarge"
	KindFault          = "fault"
	KindNotFound       = "notFound"
	KindBadRequest     = "badRequest"
	KindTooLarge       = "tooLarge" // a frame of ours that was not sent: it would have been over MaxFrame
)

// Error is the error of an answer.
type Error struct {
	Kind     string          `json:"kind"`
	Message  string          `json:"message"`
	Executed bridge.Executed `json:"executed,omitempty"`
}

func (e *Error) Error() string { return e.Kind + ": " + e.Message }

// Session is the conversation that a host is in.
type Session struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// CallRef names a call that a host has in work or keeps the answer of. Ref is
// the daemon's own and comes back byte for byte.
type CallRef struct {
	CallID bridge.CallID   `json:"callId"`
	Ref    json.RawMessage `json:"ref"`
}

// Hello is the params of hello.
type Hello struct {
	Protocol     string    `json:"protocol"`
	Kind         string    `json:"kind"`
	Version      string    `json:"version"`
	Extension    string    `json:"extension"`
	Instance     string    `json:"instance"`
	PID          int       `json:"pid"`
	CWD          string    `json:"cwd"`
	Name         string    `json:"name"`
	TTY          string    `json:"tty"`
	Tmux         string    `json:"tmux"`
	Session      Session   `json:"session"`
	State        string    `json:"state"`
	Gate         bool      `json:"gate"`
	Capabilities []string  `json:"capabilities"`
	Catalogue    string    `json:"catalogue"`
	Running      []CallRef `json:"running"`
	Unacked      []CallRef `json:"unacked"`
}

// Resumed gives a call of an earlier link its id on this one.
type Resumed struct {
	CallID bridge.CallID `json:"callId"`
	ID     int64         `json:"id"`
}

// Welcome is the result of hello.
type Welcome struct {
	Daemon    string    `json:"daemon"`
	Protocol  string    `json:"protocol"`
	Address   string    `json:"address"`
	Name      string    `json:"name"`
	Main      bool      `json:"main"`
	MainName  string    `json:"mainName"`
	Catalogue string    `json:"catalogue"`
	Resumed   []Resumed `json:"resumed"`
	Insecure  bool      `json:"insecure"`
	Names     []string  `json:"names"`
	Seen      []string  `json:"seen"`
}

// Tools is the params of tools.
type Tools struct {
	Hash  string        `json:"hash"`
	Tools []bridge.Tool `json:"tools"`
}

// StateNotice is the params of state.
type StateNotice struct {
	State   string  `json:"state"`
	Session Session `json:"session"`
}

// PeerInfo says who is behind a call, for the host to show.
type PeerInfo struct {
	Name   string `json:"name"`
	Client string `json:"client"`
}

// CallParams is the params of call.
type CallParams struct {
	CallID     bridge.CallID   `json:"callId"`
	Ref        json.RawMessage `json:"ref"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	Peer       PeerInfo        `json:"peer"`
	ApprovalMs int64           `json:"approvalMs"` // 0: the host sets no limit of its own
	WaitedMs   int64           `json:"waitedMs"`
}

// Progress is the params of progress.
type Progress struct {
	Text string `json:"text"`
}

// Approval is the params of approval.
type Approval struct {
	State string `json:"state"`
}

// Cancel is the params of cancel.
type Cancel struct {
	Reason string `json:"reason"`
}

// Ack is the params of ack.
type Ack struct {
	CallID bridge.CallID `json:"callId"`
}

// You is the params of you.
type You struct {
	Name    string   `json:"name"`
	Main    bool     `json:"main"`
	Pinned  bool     `json:"pinned"`
	Peers   []string `json:"peers"`
	Running int      `json:"running"`
	Paused  bool     `json:"paused"`
}

// Bye is the params of bye.
type Bye struct {
	Reason string `json:"reason"`
}

// Late is the params of late.
type Late struct {
	CallID  bridge.CallID `json:"callId"`
	IsError bool          `json:"isError"`
}

// Fault is the params of fault.
type Fault struct {
	Message string `json:"message"`
}

// Request is the params of request: a verb and what it takes.
type Request struct {
	Verb  string `json:"verb"`
	Name  string `json:"name,omitempty"`
	ForMs int64  `json:"forMs,omitempty"`
}

// StatusReply answers the verb status.
type StatusReply struct {
	Address  string        `json:"address"`
	Name     string        `json:"name"`
	Main     bool          `json:"main"`
	Paused   bool          `json:"paused"`
	Tokens   []StatusToken `json:"tokens"`
	Calls    StatusCalls   `json:"calls"`
	Insecure bool          `json:"insecure"`
}

// StatusToken is one token in a StatusReply.
type StatusToken struct {
	Name     string     `json:"name"`
	Client   string     `json:"client"`
	LastUsed *time.Time `json:"lastUsed"` // nil: never
}

// StatusCalls counts calls in a StatusReply.
type StatusCalls struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	Today   int `json:"today"`
}

// SecretReply answers the verbs rotate and token. The token is shown once and
// stored nowhere; printing the reply does not show it.
type SecretReply struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

// String keeps the token out of logs.
func (r SecretReply) String() string { return "{" + r.Name + " [token]}" }

// GoString keeps the token out of logs.
func (r SecretReply) GoString() string { return r.String() }

// PauseReply answers the verb pause.
type PauseReply struct {
	Until *time.Time `json:"until"` // nil: until resumed
}

// CheckProtocol returns the error of the kind protocol for a host that speaks
// theirs and a daemon that speaks ours, nil when their major versions are equal.
func CheckProtocol(theirs, ours string) *Error {
	them, okThem := major(theirs)
	us, okUs := major(ours)
	if okThem && okUs && them == us {
		return nil
	}
	update := "a2a-bridge"
	if !okThem || them < us {
		update = "the host's part of it (the extension, or a2actl) and restart the host"
	}
	return &Error{Kind: KindProtocol, Executed: bridge.ExecutedNo, Message: fmt.Sprintf(
		"the host speaks link version %q and a2a-bridge speaks %q: update %s", clip(theirs, 32), ours, update)}
}

func major(version string) (int, bool) {
	text, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// CatalogueHash names a list of tools: equal lists, equal hashes.
func CatalogueHash(tools []bridge.Tool) string {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	for _, t := range tools {
		if err := enc.Encode(t); err != nil { // a definition that is no JSON
			fmt.Fprintf(sum, "%q %q %q %q\n", t.Name, t.Tier, t.Source, t.Definition)
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// EncodeRef makes the opaque ref of a call; DecodeRef reads it back.
func EncodeRef(r bridge.Ref) json.RawMessage {
	raw, err := marshal(r)
	if err != nil { // its RPC id is no JSON: without it the answer cannot be matched after a restart
		r.RPC = nil
		raw, _ = marshal(r) // only strings are left: it cannot fail
	}
	return raw
}

// DecodeRef reads what EncodeRef made, also in an earlier daemon.
func DecodeRef(raw json.RawMessage) (bridge.Ref, error) {
	var r bridge.Ref
	if err := json.Unmarshal(raw, &r); err != nil {
		return bridge.Ref{}, fmt.Errorf("read the ref of a call: %w", err)
	}
	return r, nil
}

// clip bounds foreign text before it goes into a message.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
