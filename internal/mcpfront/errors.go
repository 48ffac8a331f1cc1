package mcpfront

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// JSON-RPC error codes that the front answers with.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeBusy           = -32000 // too many streams
	codeNoSession      = -32001
	codeHeaderMismatch = -32020
	codeVersion        = -32022
)

// fault is a request that is answered with a JSON-RPC error: it never became a
// call. What goes wrong with a call is a result, see reasons.
type fault struct {
	status  int
	code    int
	message string
	data    json.RawMessage
}

func badParse(message string) *fault {
	return &fault{http.StatusBadRequest, codeParse, message, nil}
}

func badRequest(message string) *fault {
	return &fault{http.StatusBadRequest, codeInvalidRequest, message, nil}
}

// write answers the request with the fault. A nil id is one that could not be read.
func (e *fault) write(w http.ResponseWriter, id json.RawMessage) {
	if id == nil {
		id = json.RawMessage("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(e.code), 10)
	b = append(b, `,"message":`...)
	b = append(b, quote(e.message)...)
	if e.data != nil {
		b = append(b, `,"data":`...)
		b = append(b, e.data...)
	}
	_ = writeJSON(w, e.status, b, []byte("}}")) // a client that has left needs no answer
}

// notAllowed answers 405, which tells a client that a stream is not to be had.
func notAllowed(w http.ResponseWriter, allow, message string) {
	w.Header().Set("Allow", allow)
	(&fault{http.StatusMethodNotAllowed, codeInvalidRequest, message, nil}).write(w, nil)
}

// reason is the row of a kind in the table below.
type reason struct {
	text     string          // for outcomes that bring none of their own; the call's id is added
	executed bridge.Executed // and the answers for outcomes that leave them open
	retry    bridge.Retry
	fixed    bool // the row is used whatever the outcome says
	silent   bool // the caller ended the call itself and gets no answer
	status   int  // instead of 200, when nothing ran and nothing was written yet
}

// reasons maps every kind to the wire: a call that ended without a result of
// the tool is a result with isError, HTTP 200, whose text and _meta say whether
// it ran and whether to call again.
var reasons = map[bridge.Kind]reason{
	bridge.NoHost:    {text: "Not executed: no session is attached to this bridge. Calling again is safe.", executed: bridge.ExecutedNo, retry: bridge.RetrySafe},
	bridge.QueueFull: {text: "Not executed: too many calls are waiting. Calling again later is safe.", executed: bridge.ExecutedNo, retry: bridge.RetrySafe},
	bridge.Paused:    {text: "Not executed: the owner paused this bridge. Calling again later is safe.", executed: bridge.ExecutedNo, retry: bridge.RetrySafe},
	// 503 is the one status besides 200: the listener stays open while the
	// daemon restarts, so a client that repeats the request reaches the new one.
	bridge.Stopping: {text: "Not executed: the bridge is restarting. Calling again is safe.", executed: bridge.ExecutedNo, retry: bridge.RetrySafe, status: http.StatusServiceUnavailable},
	bridge.Moved:    {text: "Not executed: this bridge now leads to another session. Its files and directory differ. Call again to use it.", executed: bridge.ExecutedNo, retry: bridge.RetrySafe},
	// One text for tools that do not exist and tools that are denied: only the
	// name in it, which is the caller's own word, differs.
	bridge.ToolUnavailable: {text: "Not executed: no tool {tool} is available here. tools/list says which are. Ask the owner of the bridge before calling it again.", executed: bridge.ExecutedNo, retry: bridge.RetryAsk, fixed: true},
	bridge.BadArguments:    {text: "Not executed: the arguments are not what the tool takes. They must be an object that fits its inputSchema.", executed: bridge.ExecutedNo, retry: bridge.RetryAsk},
	bridge.TooLarge:        {text: "Not executed: the arguments are too large.", executed: bridge.ExecutedNo, retry: bridge.RetryAsk},
	bridge.Denied:          {text: "Not executed: the owner or the policy of the session denied it. Ask them before calling again.", executed: bridge.ExecutedNo, retry: bridge.RetryAsk},
	bridge.NotApproved:     {text: "Not executed: the owner did not approve it in time. Ask them before calling again.", executed: bridge.ExecutedNo, retry: bridge.RetryAsk},
	bridge.CallerGone:      {text: "The caller went away before this call ended. Look at its effect before calling again.", executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck, silent: true},
	bridge.CancelledByPeer: {text: "Cancelled by the caller. It may have run in part: look at its effect before calling again.", executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck, silent: true},
	bridge.CancelledHere:   {text: "Cancelled by the owner of the session. It may have run in part: ask them before calling again.", executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck},
	bridge.NotArrived:      {text: "Not executed: the call never reached the session. Calling again is safe.", executed: bridge.ExecutedNo, retry: bridge.RetrySafe},
	bridge.HostLost:        {text: "May have run: contact with the session was lost while the call was running. Look at its effect before calling again.", executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck},
	bridge.ResultTooLarge:  {text: "It ran, but its result is too large to pass on. Look at its effect before calling again.", executed: bridge.ExecutedYes, retry: bridge.RetryCheck},
	bridge.HostFault:       {text: "May have run: the session did not answer as it should. Look at its effect before calling again.", executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck},
	bridge.NotFound:        {text: "May have run: the bridge no longer keeps the result of this call. Look at its effect before calling again.", executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck},
	bridge.Conflict:        {text: "Not executed: another call is in the way.", executed: bridge.ExecutedNo, retry: bridge.RetrySafe},
	bridge.LedgerFault:     {text: "Not executed: the bridge cannot write its record of calls, and nothing with effects starts without it. Its owner must look: a2actl status", executed: bridge.ExecutedNo, retry: bridge.RetryAsk},
}

// maxTool bounds a tool's name in a text.
const maxTool = 100

// complete fills what an outcome without a result leaves open; tool is what the
// caller asked for.
func complete(o bridge.Outcome, tool string) (bridge.Outcome, reason) {
	row, known := reasons[o.Kind]
	if !known {
		row = reasons[bridge.HostFault]
	}
	if o.Text == "" || row.fixed {
		if runes := []rune(tool); len(runes) > maxTool {
			tool = string(runes[:maxTool]) + "…"
		}
		o.Text = strings.Replace(row.text, "{tool}", strconv.Quote(tool), 1) + " (call " + string(o.Call) + ")"
	}
	if o.Executed == "" || row.fixed {
		o.Executed, o.Retry = row.executed, row.retry
	}
	return o, row
}

// errorResult is the CallToolResult for an outcome without one.
func errorResult(o bridge.Outcome) json.RawMessage {
	b := append([]byte(`{"content":[{"type":"text","text":`), quote(o.Text)...)
	b = append(b, `}],"isError":true,"_meta":{"a2a-bridge/call":`...)
	b = append(b, quote(string(o.Call))...)
	b = append(b, `,"a2a-bridge/executed":`...)
	b = append(b, quote(string(o.Executed))...)
	if o.Retry != "" {
		b = append(b, `,"a2a-bridge/retry":`...)
		b = append(b, quote(string(o.Retry))...)
	}
	return append(b, "}}"...)
}

// sound reports whether a host's result can be spliced into an answer. The
// link has checked that the frame around it is JSON.
func sound(result json.RawMessage) bool {
	return len(result) >= 2 && result[0] == '{' && result[len(result)-1] == '}'
}
