package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// approvalSlack is how long after its approval limit a host may take to say
// that nobody answered, before we say so for it.
const approvalSlack = 10 * time.Second

// hearing returns what takes the events about a call on a link. It runs on the
// link's read loop.
func (h *Hub) hearing(c *call, l *link) func(string, json.RawMessage) {
	return func(method string, params json.RawMessage) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if c.state.Final() || !c.sent || (c.link != l) {
			return
		}
		h.accepted(c) // any event proves that it has arrived
		switch method {
		case hostlink.MethodProgress:
			var p hostlink.Progress
			if json.Unmarshal(params, &p) == nil && p.Text != "" && c.follower != nil {
				c.follower.hear(bridge.Event{Kind: bridge.EventProgress, Text: hostlink.ClipProgress(p.Text)})
			}
		case hostlink.MethodApproval:
			var a hostlink.Approval
			if json.Unmarshal(params, &a) == nil {
				h.approvalIs(c, a.State)
			}
		}
	}
}

// approvalIs notes that the owner is being asked, or has answered.
func (h *Hub) approvalIs(c *call, state string) {
	pending := state == hostlink.ApprovalPending
	if pending == !c.approvalBy.IsZero() {
		return
	}
	e := bridge.Event{Kind: bridge.EventApprovalResolved}
	c.approvalBy = time.Time{}
	if pending {
		if c.approval <= 0 { // of an earlier process, which told the host the limit
			c.approval = h.set.ApprovalTimeout
		}
		e.Kind = bridge.EventApprovalPending
		c.approvalBy = h.now().Add(c.approval + approvalSlack)
		h.wakeAt(c.approvalBy)
	}
	if c.follower != nil {
		c.follower.hear(e)
	}
}

// answering returns what takes the answer to a call on a link. It runs on the
// link's read loop.
func (h *Hub) answering(c *call, l *link) func(json.RawMessage, error) {
	return func(result json.RawMessage, err error) {
		if errors.Is(err, hostlink.ErrLinkLost) {
			return // the link's end decides
		}
		var fault *hostlink.Error
		if err != nil && !errors.As(err, &fault) {
			fault = &hostlink.Error{Kind: hostlink.KindFault, Message: err.Error(), Executed: bridge.ExecutedUnknown}
		}
		failed := fault == nil && bytes.Contains(result, []byte(`"isError"`)) && topLevelTrue(result, "isError")

		h.mu.Lock()
		defer h.mu.Unlock()
		if c.state.Final() {
			if fault == nil || fault.Executed == bridge.ExecutedYes {
				h.ranLate(c, failed || fault != nil, len(result))
			}
			if h.calls[c.ID] == nil { // nobody will ack it otherwise
				l.ack(c.ID)
			}
			return
		}
		if c.link != l {
			return
		}
		h.accepted(c)
		if fault != nil {
			h.end(c, h.faultEnding(c, fault))
			return
		}
		h.end(c, h.resultEnding(result, failed))
	}
}

// resultEnding is how a call ends whose tool has answered.
func (h *Hub) resultEnding(result json.RawMessage, failed bool) ending {
	switch {
	case int64(len(result)) > h.set.ResultBytes:
		return ending{state: bridge.Failed, kind: bridge.ResultTooLarge, executed: bridge.ExecutedYes, retry: bridge.RetryCheck,
			detail: fmt.Sprintf("it has %s, the limit is %s", bytesText(int64(len(result))), bytesText(h.set.ResultBytes))}
	case len(result) == 0 || result[0] != '{':
		return ending{state: bridge.Failed, kind: bridge.HostFault, executed: bridge.ExecutedYes, retry: bridge.RetryCheck}
	case failed:
		return ending{state: bridge.Failed, executed: bridge.ExecutedYes, retry: bridge.RetryCheck, result: result}
	}
	return ending{state: bridge.Done, executed: bridge.ExecutedYes, result: result}
}

// faultEnding is how a call ends that its host answers with an error.
func (h *Hub) faultEnding(c *call, e *hostlink.Error) ending {
	detail := printable(e.Message, maxDetail)
	switch e.Kind {
	case hostlink.KindUnknownTool:
		return refused(bridge.ToolUnavailable, bridge.RetryAsk)
	case hostlink.KindBadArguments:
		end := refused(bridge.BadArguments, bridge.RetryAsk)
		end.detail = detail
		return end
	case hostlink.KindNotReady:
		return ending{state: bridge.Expired, kind: bridge.NoHost, executed: bridge.ExecutedNo, retry: bridge.RetrySafe,
			detail: "was not ready to run it"}
	case hostlink.KindDenied:
		end := refused(bridge.Denied, bridge.RetryAsk)
		end.detail = detail
		return end
	case hostlink.KindNotApproved:
		return ending{state: bridge.Expired, kind: bridge.NotApproved, executed: bridge.ExecutedNo, retry: bridge.RetryAsk}
	case hostlink.KindCancelled:
		return cancelled(c, e.Executed)
	case hostlink.KindResultTooLarge:
		return ending{state: bridge.Failed, kind: bridge.ResultTooLarge, executed: bridge.ExecutedYes, retry: bridge.RetryCheck, detail: detail}
	case hostlink.KindNoGate:
		return refused(bridge.HostFault, bridge.RetryAsk)
	}
	h.log.Warn("a host could not run a call", "call", c.ID, "kind", printable(e.Kind, maxShown), "message", detail)
	switch e.Executed {
	case bridge.ExecutedNo:
		return refused(bridge.HostFault, bridge.RetryAsk)
	case bridge.ExecutedYes:
		return ending{state: bridge.Failed, kind: bridge.HostFault, executed: bridge.ExecutedYes, retry: bridge.RetryCheck}
	default:
		return ending{state: bridge.Unknown, kind: bridge.HostFault, executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck}
	}
}
