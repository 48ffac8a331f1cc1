package hub

import (
	"fmt"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Main is the host behind the plain address: the first that ever attached;
// when it has left and nothing else is attached, the next that attaches. A pin
// overrules both. A host that may come back (its link was lost a moment ago,
// or the daemon has just started) has not left.

// attachedMain looks at main after a host has attached.
func (h *Hub) attachedMain(ho *host, newcomer bool) {
	if h.names.Main == ho.name {
		for _, other := range h.hosts {
			other.heir = false
		}
		return
	}
	if h.names.Pinned || (!newcomer && h.names.Main != "") {
		return
	}
	for _, other := range h.hosts {
		if other != ho && other.link != nil && !other.heir {
			return
		}
	}
	if h.mainGone() {
		h.setMain(ho.name)
		return
	}
	ho.heir = true
}

// leftMain looks at main after it has left for good.
func (h *Hub) leftMain() {
	if h.names.Pinned || !h.mainGone() {
		return
	}
	var next *host
	for _, ho := range h.hosts {
		if ho.link == nil {
			continue
		}
		if !ho.heir {
			return
		}
		if next == nil || ho.attachedAt.Before(next.attachedAt) {
			next = ho
		}
	}
	if next != nil {
		h.setMain(next.name)
	}
}

// mainGone reports that main is neither attached nor expected back.
func (h *Hub) mainGone() bool {
	return h.names.Main == "" || (h.hosts[h.names.Main] == nil && !h.expected(h.names.Main))
}

// expected reports that a host of the previous process may still come back.
func (h *Hub) expected(name string) bool {
	k := h.names.find(name)
	return k != nil && k.Attached && h.hosts[name] == nil && h.now().Before(h.bootBy)
}

// setMain makes the plain address lead to another host. Calls that wait for
// the old one end, and every peer that knows the old one will be told.
func (h *Hub) setMain(name string) {
	old := h.names.Main
	if old == name {
		return
	}
	if old != "" {
		for _, p := range h.peers {
			if _, ok := h.names.Told[p]; !ok {
				h.told(p, old)
			}
		}
	}
	h.names.Main = name
	h.dirty.names = true
	h.wakeRun()
	for _, c := range h.calls {
		if !c.byMain || c.state != bridge.Queued || c.target == name {
			continue
		}
		if old == "" { // they wait for whoever comes first
			h.dequeue(c)
			c.target = name
			h.wait(c)
			continue
		}
		h.endMoved(c)
	}
	if q := h.queues[name]; q != nil {
		sortByArrival(q.calls)
	}
	h.refreshMain()
	for _, ho := range h.hosts {
		ho.heir = false
		h.tellYou(ho)
	}
	if ho := h.hosts[name]; ho != nil {
		h.dispatch(ho)
	}
}

// endMoved ends a call that waited for a host that is not main any more.
func (h *Hub) endMoved(c *call) {
	e := refused(bridge.Moved, bridge.RetrySafe)
	e.detail = c.target
	h.told(c.Peer.Name, h.names.Main)
	h.end(c, e)
}

// tellMoved reports, once, that the peer's address leads elsewhere since its
// last call, and where it led.
func (h *Hub) tellMoved(peer string) (was string, moved bool) {
	was = h.names.Told[peer]
	if h.names.Main == "" || was == h.names.Main {
		return "", false
	}
	h.told(peer, h.names.Main)
	return was, was != ""
}

func (h *Hub) told(peer, name string) {
	if h.names.Told[peer] == name {
		return
	}
	if len(h.names.Told) >= maxTold {
		for p := range h.names.Told {
			delete(h.names.Told, p)
			break
		}
	}
	h.names.Told[peer] = name
	h.dirty.names = true
	h.wakeRun()
}

// Use pins main to a name. bridge.NotFound if no host ever had it.
func (h *Hub) Use(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.seen(name) {
		return fmt.Errorf("host %q: %w", name, bridge.NotFound)
	}
	h.names.Pinned = true
	h.dirty.names = true
	h.setMain(name)
	h.tellAll()
	return nil
}

// UseAuto takes the pin off: main stays what it is until it leaves. A pinned
// name that is away gives its place to the first host attached.
func (h *Hub) UseAuto() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.names.Pinned {
		return
	}
	h.names.Pinned = false
	h.dirty.names = true
	if h.mainGone() {
		var first *host
		for _, ho := range h.hosts {
			if ho.link != nil && (first == nil || ho.attachedAt.Before(first.attachedAt)) {
				first = ho
			}
		}
		if first != nil {
			h.setMain(first.name)
		}
	}
	h.tellAll()
	h.wakeRun()
}

// Main describes the host behind the plain address.
func (h *Hub) Main() MainStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := MainStatus{Name: h.names.Main, Pinned: h.names.Pinned}
	ho := h.hosts[s.Name]
	switch k := h.names.find(s.Name); {
	case ho != nil && ho.link != nil:
		s.Attached = true
	case ho != nil:
		s.LastLeftAt, s.LeftReason = ho.lostAt, ho.lostWhy
	case k != nil && k.Attached: // by the previous process, and not back yet
		s.LastLeftAt, s.LeftReason = k.SeenAt, reasonLost
	case k != nil:
		s.LastLeftAt, s.LeftReason = k.LeftAt, k.LeftReason
	}
	return s
}

// lastSeen says when the host of a name was last there; zero if it never was.
func (h *Hub) lastSeen(name string) time.Time {
	if ho := h.hosts[name]; ho != nil && ho.link == nil {
		return ho.lostAt
	}
	k := h.names.find(name)
	switch {
	case k == nil:
		return time.Time{}
	case !k.LeftAt.IsZero():
		return k.LeftAt
	default:
		return k.SeenAt
	}
}
