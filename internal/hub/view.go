package hub

import (
	"slices"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// offer is what one host last announced: the tools that are fit to list, before
// the owner's settings.
type offer struct {
	hash    string // the host's own
	tools   []bridge.Tool
	skipped []bridge.Skipped
	loops   []string // prefixes of tools that are this bridge's own
	at      time.Time
}

// view is what an address offers now.
type view struct {
	catalogue *bridge.Catalogue
	tools     map[string]bridge.Tool
	changed   chan struct{}
}

func newView(host string) *view {
	return &view{
		catalogue: &bridge.Catalogue{Host: host, Hash: hostlink.CatalogueHash(nil), Tools: []bridge.Tool{}},
		changed:   make(chan struct{}),
	}
}

// set replaces the catalogue. Whoever watches hears of it only when the tools
// differ.
func (v *view) set(c *bridge.Catalogue, tools map[string]bridge.Tool) {
	same := v.catalogue.Hash == c.Hash
	v.catalogue, v.tools = c, tools
	if !same {
		close(v.changed)
		v.changed = make(chan struct{})
	}
}

// View returns the catalogue behind an address; the empty name is main. It is
// the last known one while the host is away, and empty before there was any. A
// name never seen is a bridge.NotFound.
func (h *Hub) View(host string) (bridge.View, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.mainView
	if host != "" {
		if !h.seen(host) {
			return bridge.View{}, bridge.NotFound
		}
		v = h.viewOf(host)
	}
	return bridge.View{Catalogue: v.catalogue, Changed: v.changed}, nil
}

// viewOf returns the view of a host that has been seen.
func (h *Hub) viewOf(name string) *view {
	v := h.views[name]
	if v == nil {
		v = newView(name)
		h.views[name] = v
	}
	return v
}

// known reports whether there is a catalogue for a name.
func (h *Hub) known(name string) bool { return h.cats[name] != nil }

// refreshView applies the settings to what a host offers.
func (h *Hub) refreshView(name string) {
	o := h.cats[name]
	if o == nil {
		return
	}
	c := &bridge.Catalogue{Host: name, Tools: make([]bridge.Tool, 0, len(o.tools)), Skipped: o.skipped}
	byName := make(map[string]bridge.Tool, len(o.tools))
	for _, t := range o.tools {
		if h.set.hidden(t) {
			c.Hidden++
			continue
		}
		c.Tools = append(c.Tools, t)
		byName[t.Name] = t
	}
	c.Hash = hostlink.CatalogueHash(c.Tools)
	h.viewOf(name).set(c, byName)
	h.refreshMain()
}

// refreshMain makes the plain address show what main offers.
func (h *Hub) refreshMain() {
	if h.names.Main == "" {
		return
	}
	v := h.viewOf(h.names.Main)
	h.mainView.set(v.catalogue, v.tools)
}

// announced takes in the tools that a host tells of.
func (h *Hub) announced(ho *host, hash string, tools []bridge.Tool, skipped []bridge.Skipped) {
	valid, bad := validate(tools)
	skipped = append(skipped, bad...)
	if h.cfg.OwnTool != nil {
		valid = slices.DeleteFunc(valid, func(t bridge.Tool) bool {
			own := h.cfg.OwnTool(t)
			if own {
				skipped = append(skipped, bridge.Skipped{Name: t.Name, Why: whyOwn})
			}
			return own
		})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var loops []string
	if old := h.cats[ho.name]; old != nil {
		loops = old.loops
	}
	valid, looped, loops := h.dropOwn(valid, loops)
	h.cats[ho.name] = &offer{hash: hash, tools: valid, skipped: append(skipped, looped...), loops: loops, at: h.now()}
	h.boundOffers()
	ho.listed = true
	h.refreshView(ho.name)
	h.dirty.offers = true
	h.wakeRun()
	h.dispatch(ho)
}

// boundViews drops the views of names that are not remembered any more.
func (h *Hub) boundViews() {
	for name, v := range h.views {
		if h.hosts[name] == nil && !h.seen(name) {
			close(v.changed) // whoever watches it learns that it is gone
			delete(h.views, name)
		}
	}
}

// maxOffers bounds the catalogues that are remembered, and so catalogue.json.
const maxOffers = 16

// boundOffers forgets the oldest catalogue of a host that is away.
func (h *Hub) boundOffers() {
	for len(h.cats) > maxOffers {
		oldest := ""
		for name, o := range h.cats {
			if h.hosts[name] == nil && name != h.names.Main && (oldest == "" || o.at.Before(h.cats[oldest].at)) {
				oldest = name
			}
		}
		if oldest == "" {
			return
		}
		delete(h.cats, oldest)
	}
}
