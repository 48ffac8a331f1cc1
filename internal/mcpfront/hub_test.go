package mcpfront_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

var errDetached = errors.New("detached")

// hubFake is the far end of the front: it keeps the hub's promises about
// watchers and outcomes, and its tools do what the test says.
//
// Tools: "echo" answers with its arguments, "read" (tier read) too; "hold" and
// "peek" (tier read) run until finish; "end KIND" ends at once with that kind.
type hubFake struct {
	mu        sync.Mutex
	attached  bool
	change    chan struct{} // closed and replaced at every change of the fields here
	cats      map[string]*bridge.Catalogue
	changed   map[string]chan struct{}
	calls     []*callFake
	delivered map[bridge.CallID]int
}

type callFake struct {
	bridge.Call
	hub     *hubFake
	w       bridge.Watcher
	state   bridge.State
	outcome bridge.Outcome
	ran     int
	over    chan struct{}
}

func newHubFake() *hubFake {
	h := &hubFake{attached: true, change: make(chan struct{}), cats: map[string]*bridge.Catalogue{},
		changed: map[string]chan struct{}{}, delivered: map[bridge.CallID]int{}}
	h.setTools("", tool("echo", ""), tool("read", bridge.TierRead), tool("hold", ""), tool("peek", bridge.TierRead))
	h.setTools("app", tool("echo", ""))
	return h
}

func tool(name string, tier bridge.Tier) bridge.Tool {
	return bridge.Tool{Name: name, Tier: tier, Definition: json.RawMessage(
		fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":{"type":"object"}}`, name))}
}

func (h *hubFake) setTools(host string, tools ...bridge.Tool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names strings.Builder
	for _, t := range tools {
		fmt.Fprintf(&names, "%s %s %s\n", t.Name, t.Tier, t.Definition)
	}
	h.cats[host] = &bridge.Catalogue{Host: host, Hash: names.String(), Tools: tools}
	if ch := h.changed[host]; ch != nil {
		close(ch)
	}
	h.changed[host] = make(chan struct{})
}

func (h *hubFake) View(host string) (bridge.View, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cats[host] == nil {
		return bridge.View{}, bridge.NotFound
	}
	return bridge.View{Catalogue: h.cats[host], Changed: h.changed[host]}, nil
}

// touch wakes who waits for a change. mu is held.
func (h *hubFake) touch() {
	close(h.change)
	h.change = make(chan struct{})
}

func (h *hubFake) attach(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attached = on
	h.touch()
}

func (h *hubFake) Call(ctx context.Context, c bridge.Call, w bridge.Watcher) (bridge.Outcome, error) {
	fc := &callFake{Call: c, hub: h, w: w, state: bridge.Queued, over: make(chan struct{})}
	h.mu.Lock()
	h.calls = append(h.calls, fc)
	h.touch()
	h.mu.Unlock()
	if c.Args[0] != '{' {
		fc.end(bridge.Outcome{State: bridge.Refused, Kind: bridge.BadArguments})
		return fc.outcome, nil
	}
	if kind, ok := strings.CutPrefix(c.Tool, "end "); ok {
		fc.end(bridge.Outcome{State: bridge.Refused, Kind: bridge.Kind(kind)})
		return fc.outcome, nil
	}
	for {
		h.mu.Lock()
		attached, change := h.attached, h.change
		h.mu.Unlock()
		if attached {
			break
		}
		select {
		case <-ctx.Done():
			fc.end(bridge.Outcome{State: bridge.Abandoned, Kind: bridge.CallerGone, Executed: bridge.ExecutedNo})
			return fc.outcome, nil
		case <-fc.over:
			return fc.outcome, nil
		case <-change:
		}
	}
	if err := w.HandOver(); err != nil {
		fc.end(bridge.Outcome{State: bridge.Abandoned, Kind: bridge.CallerGone, Executed: bridge.ExecutedNo})
		return fc.outcome, nil
	}
	fc.start()
	return fc.follow(ctx, w)
}

func (h *hubFake) Join(ctx context.Context, id bridge.CallID, token string, w bridge.Watcher) (bridge.Outcome, error) {
	h.mu.Lock()
	fc := h.find(id)
	if fc == nil || fc.Peer.Token != token || h.delivered[id] > 0 {
		h.mu.Unlock()
		return bridge.Outcome{}, bridge.NotFound
	}
	fc.w = w
	h.touch()
	h.mu.Unlock()
	return fc.follow(ctx, w)
}

func (c *callFake) start() {
	c.hub.mu.Lock()
	if c.state.Final() {
		c.hub.mu.Unlock()
		return
	}
	c.state = bridge.Running
	c.ran++
	c.hub.touch()
	c.hub.mu.Unlock()
	if c.Tool == "echo" || c.Tool == "read" {
		c.end(bridge.Outcome{State: bridge.Done, Executed: bridge.ExecutedYes, Result: json.RawMessage(
			`{"content":[{"type":"text","text":"echo"}],"structuredContent":` + string(c.Args) + `}`)})
	}
}

func (c *callFake) follow(ctx context.Context, w bridge.Watcher) (bridge.Outcome, error) {
	select {
	case <-c.over:
	case <-ctx.Done():
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		if c.w == w {
			c.w = nil
		}
		if c.state.Final() {
			return c.outcome, nil
		}
		return bridge.Outcome{}, errDetached
	}
	return c.outcome, nil
}

// end finishes a call, once. It reports whether this was the end.
func (c *callFake) end(o bridge.Outcome) bool {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.endLocked(o)
}

func (c *callFake) endLocked(o bridge.Outcome) bool {
	if c.state.Final() {
		return false
	}
	o.Call = c.ID
	c.outcome, c.state = o, o.State
	close(c.over)
	c.hub.touch()
	return true
}

// event tells the watcher, as long as the call is open.
func (c *callFake) event(e bridge.Event) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.w != nil && !c.state.Final() {
		c.w.Event(e)
	}
}

func (h *hubFake) Delivered(id bridge.CallID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delivered[id]++
	h.touch()
}

func (h *hubFake) Cancel(match func(bridge.Call) bool, why bridge.Kind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, c := range h.calls {
		if !c.state.Final() && match(c.Call) {
			executed := bridge.ExecutedUnknown
			if c.state == bridge.Queued {
				executed = bridge.ExecutedNo
			}
			c.endLocked(bridge.Outcome{State: bridge.Cancelled, Kind: why, Executed: executed, Retry: bridge.RetryCheck})
			n++
		}
	}
	return n
}

// find is the call with an id. mu is held.
func (h *hubFake) find(id bridge.CallID) *callFake {
	for _, c := range h.calls {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// latest is the newest call of a tool, nil if there is none. mu is held.
func (h *hubFake) latest(tool string) *callFake {
	for i := len(h.calls) - 1; i >= 0; i-- {
		if h.calls[i].Tool == tool {
			return h.calls[i]
		}
	}
	return nil
}

// await waits until the newest call of a tool is as wanted.
func (h *hubFake) await(ctx context.Context, tool string, want func(*callFake) bool) (*callFake, error) {
	for {
		h.mu.Lock()
		c, change := h.latest(tool), h.change
		ok := c != nil && want(c)
		h.mu.Unlock()
		if ok {
			return c, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			if c != nil {
				return c, fmt.Errorf("%s is %s: %w", tool, c.state, c.outcome.Kind)
			}
			return nil, fmt.Errorf("there is no call of %s", tool)
		}
	}
}

func running(c *callFake) bool { return c.state == bridge.Running }
func over(c *callFake) bool    { return c.state.Final() }
