package hub

import (
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// maxArgs bounds the arguments of one call: what the link carries, with room
// for the rest of the frame.
const maxArgs = 24 << 20

// maxRPC bounds the JSON-RPC id that travels with a call and is written down.
const maxRPC = 4 << 10

// refused is the ending of a call that did not run and could not.
func refused(why bridge.Kind, retry bridge.Retry) ending {
	return ending{state: bridge.Refused, kind: why, executed: bridge.ExecutedNo, retry: retry}
}

func refusal(why bridge.Kind, retry bridge.Retry) *ending {
	e := refused(why, retry)
	return &e
}

// admit decides whether a call may wait for its host at all, and which host
// that is. What it cannot know yet is looked at again at hand-over.
func (h *Hub) admit(c *call) *ending {
	switch {
	case h.refusing:
		return refusal(bridge.Stopping, bridge.RetrySafe)
	case h.isPaused():
		return refusal(bridge.Paused, bridge.RetrySafe)
	}
	c.byMain = c.Host == ""
	c.target = c.Host
	if c.byMain {
		c.target = h.names.Main
		if was, moved := h.tellMoved(c.Peer.Name); moved {
			e := refused(bridge.Moved, bridge.RetrySafe)
			e.detail = was
			return &e
		}
	} else if !h.seen(c.Host) {
		return refusal(bridge.NotFound, bridge.RetryAsk)
	}
	if len(c.Args) > maxArgs {
		return refusal(bridge.TooLarge, bridge.RetryAsk)
	}
	if len(c.Args) == 0 || c.Args[0] != '{' {
		e := refused(bridge.BadArguments, bridge.RetryAsk)
		e.detail = "they must be a JSON object"
		return &e
	}
	if len(c.Ref.RPC) > maxRPC {
		e := refused(bridge.BadArguments, bridge.RetryAsk)
		e.detail = "the request's id is too long"
		return &e
	}
	if !h.known(c.target) && h.allowed(c) {
		return nil // no catalogue yet: the host will say
	}
	tool, ok := h.tool(c.target, c)
	if !ok {
		return refusal(bridge.ToolUnavailable, bridge.RetryAsk)
	}
	c.tier = tool.Tier
	return nil
}

// tool finds the tool of a call in what the host offers after policy, if the
// caller may use it.
func (h *Hub) tool(host string, c *call) (bridge.Tool, bool) {
	v := h.views[host]
	if v == nil || !h.allowed(c) {
		return bridge.Tool{}, false
	}
	t, ok := v.tools[c.Tool]
	return t, ok
}

// allowed reports whether the caller may use a tool of that name, if there is
// one.
func (h *Hub) allowed(c *call) bool {
	return c.Peer.MayCall(c.Tool) && !bridge.MatchAny(h.set.Deny, c.Tool)
}

// hidden reports whether the owner's settings keep a tool from everybody.
func (s Settings) hidden(t bridge.Tool) bool {
	return (s.DenyMCPTools && t.Source == sourceMCP) || bridge.MatchAny(s.Deny, t.Name)
}

// sourceMCP is what a host says of the tools that it has from MCP servers.
const sourceMCP = "mcp"
