package hub

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// youEvery bounds how often a host is told what its status line shows: calls
// come and go faster than anyone reads.
const youEvery = 250 * time.Millisecond

// link is one connection of a host. What is sent on it beside calls waits in
// here for the goroutine in tell. The fields below conn are guarded by Hub.mu.
type link struct {
	hub      *Hub
	conn     *hostlink.Conn
	greeted  atomic.Bool
	ended    chan struct{} // closed when its end has been dealt with
	nudge    chan struct{}
	patience *time.Timer // closes it unless it has been greeted

	host    *host // nil before the hello
	open    bool  // calls may go
	over    bool
	bye     string
	acks    []bridge.CallID // bounded by the calls that were sent
	cancels []cancelNote
	you     youNote
}

type cancelNote struct {
	id  int64
	why bridge.Kind
}

type youNote struct {
	due  bool
	last hostlink.You
	sent time.Time
}

func (l *link) wake() {
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}

// ack lets the host forget an answer.
func (l *link) ack(id bridge.CallID) {
	l.acks = append(l.acks, id)
	l.wake()
}

// cancel tells the host that nobody wants a call any more.
func (l *link) cancel(id int64, why bridge.Kind) {
	l.cancels = append(l.cancels, cancelNote{id, why})
	l.wake()
}

// tell sends what waits until the link is over.
func (l *link) tell() {
	h := l.hub
	for {
		h.mu.Lock()
		over, acks, cancels := l.over, l.acks, l.cancels
		l.acks, l.cancels = nil, nil
		you, send, later := l.takeYou()
		h.mu.Unlock()
		if over {
			return
		}
		for _, c := range cancels {
			_ = l.conn.Event(c.id, hostlink.MethodCancel, hostlink.Cancel{Reason: string(c.why)}) // a lost link shows in its Run
		}
		for _, id := range acks {
			_ = l.conn.Notify(hostlink.MethodAck, hostlink.Ack{CallID: id})
		}
		if send {
			_ = l.conn.Notify(hostlink.MethodYou, you)
		}
		if later <= 0 {
			<-l.nudge
			continue
		}
		t := time.NewTimer(later)
		select {
		case <-l.nudge:
		case <-t.C:
		}
		t.Stop()
	}
}

// takeYou returns what the host's status line should show, if that is news and
// its turn, or when to look again.
func (l *link) takeYou() (you hostlink.You, send bool, later time.Duration) {
	h := l.hub
	if !l.you.due || !l.open || l.host == nil {
		return you, false, 0
	}
	if wait := youEvery - time.Since(l.you.sent); wait > 0 {
		return you, false, wait
	}
	l.you.due = false
	you = hostlink.You{
		Name: l.host.name, Main: h.names.Main == l.host.name, Pinned: h.names.Pinned,
		Peers: append([]string{}, h.peers...), Running: l.host.slots, Paused: h.isPaused(),
	}
	last := l.you.last
	if !l.you.sent.IsZero() && slices.Equal(last.Peers, you.Peers) && last.Name == you.Name && last.Main == you.Main &&
		last.Pinned == you.Pinned && last.Running == you.Running && last.Paused == you.Paused {
		return you, false, 0
	}
	l.you.last, l.you.sent = you, time.Now()
	return you, true, 0
}

// tellYou makes a host's status line be looked at.
func (h *Hub) tellYou(ho *host) {
	if ho.link != nil && !ho.link.you.due {
		ho.link.you.due = true
		ho.link.wake()
	}
}

func (h *Hub) tellAll() {
	for _, ho := range h.hosts {
		h.tellYou(ho)
	}
}

// SetPeers says who is connected.
func (h *Hub) SetPeers(names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Equal(h.peers, names) {
		return
	}
	h.peers = slices.Clone(names)
	h.tellAll()
}
