package hub

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	// oldLinkWait is how long the old link of a host that dials again has to
	// show life before it is dropped.
	oldLinkWait = 2 * time.Second
	// maxHelloText bounds each text of a hello; a path may be long.
	maxHelloText = 4096
	// maxHelloCalls bounds the calls that a host can bring back.
	maxHelloCalls = 4096
)

// hello attaches a host, or says why not. The welcome has left before the
// first call can.
func (h *Hub) hello(ctx context.Context, l *link, r *hostlink.Incoming) *hostlink.Error {
	var hello hostlink.Hello
	if err := json.Unmarshal(r.Params, &hello); err != nil {
		return badHello("it cannot be read")
	}
	if err := hostlink.CheckProtocol(hello.Protocol, hostlink.Protocol); err != nil {
		h.log.Warn("a host is refused", "err", err)
		return err
	}
	if err := checkHello(hello); err != nil {
		return err
	}
	if !l.greeted.CompareAndSwap(false, true) {
		return badHello("this link has had its hello")
	}
	if e := h.dropOldLink(ctx, hello.Instance); e != nil {
		l.notGreeted()
		return e
	}
	pidSeen := pidAlive(hello.PID)
	welcome, e := h.attach(l, hello, pidSeen)
	if e != nil {
		l.notGreeted()
		return e
	}
	h.describe(&welcome)
	raw, err := json.Marshal(welcome)
	if err == nil {
		err = r.Reply(raw)
	}
	if err != nil { // the link's end tells the rest
		h.log.Warn("a host cannot be welcomed", "err", err)
		l.conn.Close()
		return nil
	}
	h.open(l)
	return nil
}

// notGreeted gives a link whose hello was not accepted another while.
func (l *link) notGreeted() {
	l.greeted.Store(false)
	l.patience.Reset(hostlink.HelloLimit)
}

func badHello(why string) *hostlink.Error {
	return &hostlink.Error{Kind: hostlink.KindBadHello, Message: "this hello is not accepted: " + why, Executed: bridge.ExecutedNo}
}

func checkHello(hello hostlink.Hello) *hostlink.Error {
	for _, text := range []string{hello.Kind, hello.Version, hello.Extension, hello.Instance, hello.CWD, hello.Name,
		hello.TTY, hello.Tmux, hello.State, hello.Session.ID, hello.Session.Name, hello.Catalogue} {
		if len(text) > maxHelloText {
			return badHello("a text in it is too long")
		}
	}
	switch {
	case hello.Instance == "":
		return badHello("it has no instance")
	case len(hello.Running)+len(hello.Unacked) > maxHelloCalls:
		return badHello("it lists too many calls")
	}
	return nil
}

// dropOldLink makes sure that a host that dials again has no other link: one
// that is alive wins, one that is silent is cut.
func (h *Hub) dropOldLink(ctx context.Context, instance string) *hostlink.Error {
	h.mu.Lock()
	var old *link
	for _, ho := range h.hosts {
		if ho.hello.Instance == instance {
			old = ho.link
		}
	}
	h.mu.Unlock()
	if old == nil {
		return nil
	}
	ask, done := context.WithTimeout(ctx, oldLinkWait)
	defer done()
	alive := make(chan bool, 1)
	h.work.Go(func() { // a full socket holds the writer longer than we want to wait
		_, err := old.conn.Do(ask, hostlink.MethodPing, nil, nil)
		alive <- err == nil
	})
	select {
	case answered := <-alive:
		if answered {
			return conflict()
		}
	case <-ask.Done():
	}
	old.conn.Close()
	select {
	case <-old.ended:
		return nil
	case <-ctx.Done():
		return conflict()
	}
}

func conflict() *hostlink.Error {
	return &hostlink.Error{Kind: hostlink.KindConflict, Message: "this host is attached already, and its other link is alive", Executed: bridge.ExecutedNo}
}

// attach gives a host its name, its place and the calls that it still has.
func (h *Hub) attach(l *link, hello hostlink.Hello, pidSeen bool) (hostlink.Welcome, *hostlink.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return hostlink.Welcome{}, &hostlink.Error{Kind: hostlink.KindFault, Message: "the daemon is stopping; dial again", Executed: bridge.ExecutedNo}
	}
	now := h.now()
	ho := h.byInstance(hello.Instance)
	if ho != nil && ho.link != nil {
		return hostlink.Welcome{}, conflict()
	}
	newcomer := ho == nil
	if ho == nil {
		name := h.names.choose(hello, h.taken)
		if old := h.hosts[name]; old != nil { // lost, and nothing says that it lives
			h.gone(old, reasonTaken)
		}
		newcomer = !h.expected(name)
		ho = &host{name: name, order: map[string]chan struct{}{}}
		h.hosts[name] = ho
	}
	ho.hello, ho.link, ho.attachedAt, ho.pidSeen = hello, l, now, pidSeen
	ho.hello.Running, ho.hello.Unacked = nil, nil
	ho.state, ho.session = hello.State, hello.Session
	ho.listed = false
	l.host = ho
	h.names.remember(ho.name, hello, now, func(name string) bool { return h.hosts[name] != nil || name == h.names.Main })
	h.dirty.names = true

	w := hostlink.Welcome{Daemon: h.cfg.Version, Protocol: hostlink.Protocol, Name: ho.name, Catalogue: hostlink.CatalogueSend}
	if o := h.cats[ho.name]; o != nil && hello.Catalogue != "" && o.hash == hello.Catalogue {
		w.Catalogue = hostlink.CatalogueKnown
		ho.listed = true
	}
	w.Resumed = h.resume(l, ho, hello)
	h.attachedMain(ho, newcomer)
	w.MainName = h.names.Main
	w.Main = w.MainName == ho.name
	h.viewOf(ho.name)
	h.boundViews()
	h.log.Info("a host attached", "name", ho.name, "kind", hello.Kind, "version", hello.Version, "main", w.Main, "resumed", len(w.Resumed))
	h.tellAll()
	h.wakeRun()
	return w, nil
}

// describe adds what the host shows to its owner. It calls out, so it is done
// without the lock.
func (h *Hub) describe(w *hostlink.Welcome) {
	if h.cfg.Address != nil {
		w.Address = h.cfg.Address()
	}
	if w.Address != "" && !w.Main {
		w.Address += "/" + url.PathEscape(w.Name)
	}
	if h.cfg.Insecure != nil {
		w.Insecure = h.cfg.Insecure()
	}
	w.Names = []string{}
	if h.cfg.TokenNames != nil {
		w.Names = append(w.Names, h.cfg.TokenNames()...)
	}
	w.Seen = []string{}
	if h.cfg.Seen != nil {
		w.Seen = append(w.Seen, h.cfg.Seen()...)
	}
	if w.Resumed == nil {
		w.Resumed = []hostlink.Resumed{}
	}
}

// open lets calls go to a host that has its welcome.
func (h *Hub) open(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.host == nil || l.host.link != l {
		return
	}
	l.open = true
	l.you.due = true
	l.wake()
	h.wakeAt(h.now().Add(hostlink.FrozenAfter))
	h.dispatch(l.host)
}

func (h *Hub) byInstance(instance string) *host {
	for _, ho := range h.hosts {
		if ho.hello.Instance == instance {
			return ho
		}
	}
	return nil
}

// taken reports that a name belongs to a host that is attached, or lost with
// its process alive.
func (h *Hub) taken(name string) bool {
	ho := h.hosts[name]
	return ho != nil && (ho.link != nil || (ho.pidSeen && pidAlive(ho.hello.PID)))
}
