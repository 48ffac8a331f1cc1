package hub

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// host is a host process that is attached, or whose link was lost and that is
// expected back. Guarded by Hub.mu.
type host struct {
	name       string
	hello      hostlink.Hello
	link       *link // nil: lost
	attachedAt time.Time
	heir       bool // becomes main if main does not come back
	listed     bool // its catalogue is known
	frozen     bool // as last seen by Run
	state      string
	session    hostlink.Session
	slots      int // calls that have one
	order      map[string]chan struct{}
	lostAt     time.Time
	lostWhy    string
	leaveBy    time.Time // when it is given up
	pidSeen    bool      // its pid means something here
}

// Reasons for which hosts leave.
const (
	reasonClosed = "closed by its user"
	reasonError  = "it reported an error"
	reasonEnded  = "its process ended"
	reasonLost   = "its link was lost"
	reasonTaken  = "another session took its name"
)

// pidPoll is how often the process of a lost host is looked at: it may be
// ending just now.
const pidPoll = 250 * time.Millisecond

// Attach serves one connection of a host until it ends. It closes it.
func (h *Hub) Attach(ctx context.Context, conn net.Conn) error {
	l := &link{hub: h, ended: make(chan struct{}), nudge: make(chan struct{}, 1)}
	l.conn = hostlink.NewConn(conn, l, h.log)
	h.mu.Lock()
	if h.stopping {
		h.mu.Unlock()
		return conn.Close()
	}
	h.work.Add(1) // Stop waits for it
	h.mu.Unlock()
	defer h.work.Done()
	l.patience = time.AfterFunc(hostlink.HelloLimit, func() {
		if !l.greeted.Load() {
			h.log.Warn("a connection to the host socket said no hello and is closed")
			l.conn.Close()
		}
	})
	h.work.Go(l.tell)
	err := l.conn.Run(ctx)
	l.patience.Stop()
	h.detached(l)
	close(l.ended)
	return err
}

// Request implements hostlink.Handler.
func (l *link) Request(ctx context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
	switch r.Method {
	case hostlink.MethodHello:
		return nil, l.hub.hello(ctx, l, r)
	case hostlink.MethodRequest:
		name := l.hub.nameOf(l)
		var q hostlink.Request
		if err := json.Unmarshal(r.Params, &q); err != nil || name == "" || l.hub.cfg.Requests == nil {
			return nil, &hostlink.Error{Kind: hostlink.KindBadRequest, Message: "this request cannot be answered here", Executed: bridge.ExecutedNo}
		}
		return l.hub.cfg.Requests(ctx, name, q)
	}
	return nil, &hostlink.Error{Kind: hostlink.KindUnknownMethod, Message: "the bridge does not answer " + printable(r.Method, maxShown), Executed: bridge.ExecutedNo}
}

// Notice implements hostlink.Handler.
func (l *link) Notice(method string, params json.RawMessage) {
	h := l.hub
	switch method {
	case hostlink.MethodTools:
		hash, tools, skipped, err := decodeTools(params)
		if err != nil {
			h.log.Warn("a host's catalogue cannot be read", "err", err)
			return
		}
		if ho := h.hostOf(l); ho != nil {
			h.announced(ho, hash, tools, skipped)
		}
	case hostlink.MethodState:
		var s hostlink.StateNotice
		if json.Unmarshal(params, &s) == nil && len(s.State) <= maxShown {
			if len(s.Session.ID) > maxHelloText || len(s.Session.Name) > maxHelloText {
				s.Session = hostlink.Session{}
			}
			h.stateIs(l, s)
		}
	case hostlink.MethodBye:
		var b hostlink.Bye
		if json.Unmarshal(params, &b) == nil {
			h.mu.Lock()
			l.bye = b.Reason
			h.mu.Unlock()
		}
	case hostlink.MethodLate:
		var late hostlink.Late
		if json.Unmarshal(params, &late) == nil && late.CallID != "" && len(late.CallID) <= maxCallID {
			h.lateNotice(l, late)
		}
	}
}

// decodeTools reads a tools notice; an entry that cannot be read does not
// spoil the others.
func decodeTools(params json.RawMessage) (hash string, tools []bridge.Tool, skipped []bridge.Skipped, err error) {
	var raw struct {
		Hash  string
		Tools []json.RawMessage
	}
	if err := json.Unmarshal(params, &raw); err != nil {
		return "", nil, nil, err
	}
	if len(raw.Hash) > maxHelloText {
		raw.Hash = "" // it will not be known again
	}
	for _, one := range raw.Tools {
		var t bridge.Tool
		if json.Unmarshal(one, &t) != nil {
			if len(skipped) < maxSkipped {
				skipped = append(skipped, bridge.Skipped{Name: printable(t.Name, maxShown), Why: "its entry cannot be read"})
			}
			continue
		}
		tools = append(tools, t)
	}
	return raw.Hash, tools, skipped, nil
}

// stateIs takes in whether a host can run tools now.
func (h *Hub) stateIs(l *link, s hostlink.StateNotice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ho := l.host; ho != nil && ho.link == l {
		ho.state, ho.session = s.State, s.Session
		h.dispatch(ho)
	}
}

// detached handles the end of a link. The host may come back with its calls,
// unless it said good-bye or its process is gone.
func (h *Hub) detached(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.over = true
	l.wake()
	ho := l.host
	if ho == nil || ho.link != l {
		return
	}
	ho.link = nil
	ho.lostAt = h.now()
	ho.lostWhy = reasonLost
	if l.bye == hostlink.ByeError {
		ho.lostWhy = reasonError
	}
	ho.leaveBy = ho.lostAt.Add(h.set.ResumeGrace)
	for _, c := range h.calls {
		if c.link == l {
			c.link = nil
			if c.sent && c.cancelWhy != "" {
				h.endCancelled(c, bridge.ExecutedUnknown)
			}
		}
	}
	if h.stopping {
		return // its calls belong to the next process
	}
	switch {
	case l.bye == hostlink.ByeClosed:
		h.gone(ho, reasonClosed)
	case ho.pidSeen && !pidAlive(ho.hello.PID):
		h.gone(ho, reasonEnded)
	case ho.pidSeen:
		h.wakeAt(ho.lostAt.Add(pidPoll))
	default:
		h.wakeAt(ho.leaveBy)
	}
	h.tellAll()
}

// gone gives a host up: what it had of ours may have run.
func (h *Hub) gone(ho *host, reason string) {
	delete(h.hosts, ho.name)
	h.names.gone(ho.name, reason, ho.lostAt)
	h.dirty.names = true
	h.log.Info("a host left", "name", ho.name, "reason", reason)
	for _, c := range h.calls {
		if c.sent && c.instance == ho.hello.Instance && !c.state.Final() {
			h.end(c, hostLost())
		}
	}
	h.leftMain()
	h.wakeRun()
}

func hostLost() ending {
	return ending{state: bridge.Unknown, kind: bridge.HostLost, executed: bridge.ExecutedUnknown, retry: bridge.RetryCheck}
}

// hostOf is the host on a link; nil before its hello.
func (h *Hub) hostOf(l *link) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.host
}

func (h *Hub) nameOf(l *link) string {
	if ho := h.hostOf(l); ho != nil {
		return ho.name
	}
	return ""
}
