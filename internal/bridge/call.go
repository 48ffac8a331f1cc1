package bridge

import (
	"crypto/rand"
	"encoding/json"
	"time"
)

// CallID names one call everywhere: in the caller's error text, the ledger,
// the log and the host's card.
type CallID string

// callIDAlphabet leaves out letters and digits that people mix up.
const callIDAlphabet = "abcdefghjkmnpqrstvwxyz0123456789"

// NewCallID returns a fresh random id such as c_7f3kq2m4xw (50 random bits:
// a million kept calls collide with a chance of about one in two thousand,
// and the hub draws again when it knows the id already).
func NewCallID() CallID {
	var b [10]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails: it ends the process instead
	for i := range b {
		b[i] = callIDAlphabet[int(b[i])%len(callIDAlphabet)]
	}
	return CallID("c_" + string(b[:]))
}

// Ref says where the answer to a call goes. It travels to the host and back,
// so that a restarted daemon can answer without a table of its own.
type Ref struct {
	Front    string          `json:"front"`              // "mcp" or "a2a"
	Session  string          `json:"session,omitempty"`  // MCP session id; empty in the stateless era
	RPC      json.RawMessage `json:"rpc,omitempty"`      // the JSON-RPC id, byte for byte
	Revision string          `json:"revision,omitempty"` // negotiated protocol revision
	Token    string          `json:"token"`              // the caller's token record
	Peer     string          `json:"peer"`               // and its name
}

// Call is one invocation of a tool by a peer.
type Call struct {
	ID     CallID          // made by the front with NewCallID
	Host   string          // name of the host; empty means main
	Tool   string          //
	Args   json.RawMessage // compact, otherwise the caller's bytes; never empty
	Peer   Peer            //
	Client Client          //
	Ref    Ref             //
}

// State is where a call stands.
type State string

// The states of a call. Queued, HandedOver and Running are open; each call
// ends in exactly one of the others.
const (
	Queued     State = "queued"      // not given to a host yet: safe to move or drop
	HandedOver State = "handed over" // sent to a host, not confirmed yet: never sent again
	Running    State = "running"     // confirmed by the host
	Done       State = "done"        // the tool answered
	Failed     State = "error"       // the tool answered with an error, or its answer could not be relayed
	Cancelled  State = "cancelled"   // the caller or the owner cancelled it
	Expired    State = "expired"     // it waited for a host or an approval for too long
	Abandoned  State = "abandoned"   // its caller left while it was queued
	Refused    State = "refused"     // not accepted
	Unknown    State = "unknown"     // the host was lost while it ran
)

// Final reports whether a call in this state is over.
func (s State) Final() bool { return s != Queued && s != HandedOver && s != Running }

// Executed answers the first question after a failure: did it run?
type Executed string

// The three honest answers.
const (
	ExecutedNo      Executed = "no"
	ExecutedYes     Executed = "yes"
	ExecutedUnknown Executed = "unknown"
)

// Retry answers the second one: may I call again?
type Retry string

// Advice to the caller; empty when there is none to give.
const (
	RetrySafe  Retry = "safe"  // calling again cannot repeat an effect
	RetryAsk   Retry = "ask"   // ask the owner first: calling again alone will not help
	RetryCheck Retry = "check" // look at the tool's effect first
)

// Outcome is how a call ended.
type Outcome struct {
	Call     CallID
	State    State
	Kind     Kind            // why; empty when the tool itself answered
	Executed Executed        //
	Retry    Retry           //
	Result   json.RawMessage // the host's CallToolResult, byte for byte; nil when there is none
	Text     string          // what to tell the caller when Result is nil
	Waited   time.Duration   // in the queue
}

// EventKind tells the events of a running call apart.
type EventKind string

// What a watcher hears while a call is open.
const (
	EventProgress         EventKind = "progress"          // Text is new partial output only
	EventApprovalPending  EventKind = "approval pending"  // the host waits for its owner
	EventApprovalResolved EventKind = "approval resolved" // and has an answer
)

// Event is something that happened to an open call.
type Event struct {
	Kind EventKind
	Text string
}

// Watcher is the front's side of one open call. The methods are called one at
// a time, never after the call's outcome has been returned.
type Watcher interface {
	// HandOver is called when the call is about to be given to a host, once
	// for each attempt. The front makes sure that its caller is still there and
	// starts the answer. An error means that the caller has gone: the call is
	// abandoned and does not run.
	HandOver() error
	// Event must not block on the caller.
	Event(Event)
}
