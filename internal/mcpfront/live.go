package mcpfront

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Limits of what one token may have open. Nothing that is in use is ever ended
// to make room.
const (
	// maxStreams is far above the clients that share a token, at one stream each.
	maxStreams = 64
	// maxAnswers is above what the hub runs and queues for one host: past it a
	// call would only be refused there. It is refused here instead, and is the
	// one call that the ledger never hears of: a caller out of control should
	// not also turn the ledger over.
	maxAnswers = 1024
)

// Why an answer or stream ended although neither its client nor the hub ended it.
var (
	errEnded     = errors.New("the stream was ended here")
	errReplaced  = errors.New("the client came back on another connection")
	errCancelled = errors.New("the caller cancelled it")
	errStuck     = errors.New("the client takes nothing")
)

// admission says whether something may be opened.
type admission int

const (
	admitted admission = iota
	full               // the token has too many
	ending             // streams are being ended: the client should come back at once, to the next daemon
)

// live is what exists only while the daemon runs.
type live struct {
	mu      sync.Mutex
	ended   bool
	callers map[string]*caller           // by token: as many as the owner made
	holders map[bridge.CallID]*exchange  // the answer that a call's outcome goes to
	feeds   map[string]*feed             // the event stream of each session that has one
	lost    map[bridge.CallID]*departure // calls whose client closed a resumable answer
	tombs   map[string]struct{}
	order   []string // of tombs; once full, a ring that begins at oldest
	oldest  int
}

// caller is one token, both eras alike.
type caller struct {
	name    string
	client  bridge.Client
	era     string
	seen    time.Time
	answers map[*exchange]struct{}
	feeds   map[*feed]struct{}
}

// feed is an open event stream that belongs to no call.
type feed struct {
	token   string
	session string // its key; empty for a listen request
	cancel  context.CancelCauseFunc
}

func newLive() *live {
	return &live{
		callers: make(map[string]*caller),
		holders: make(map[bridge.CallID]*exchange),
		feeds:   make(map[string]*feed),
		lost:    make(map[bridge.CallID]*departure),
		tombs:   make(map[string]struct{}),
	}
}

// caller is the entry of a token, made when it is new. mu is held.
func (l *live) caller(p bridge.Peer) *caller {
	c := l.callers[p.Token]
	if c == nil {
		c = &caller{answers: make(map[*exchange]struct{}), feeds: make(map[*feed]struct{})}
		l.callers[p.Token] = c
	}
	c.name = p.Name
	return c
}

func (l *live) seen(p bridge.Peer, client bridge.Client, era string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.caller(p)
	c.client, c.era, c.seen = client, era, now
}

// enter registers an answer, unless its token has too many.
func (l *live) enter(x *exchange) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.caller(x.peer)
	if len(c.answers) >= maxAnswers {
		return false
	}
	c.answers[x] = struct{}{}
	l.holders[x.call.ID] = x
	return true
}

func (l *live) leave(x *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.callers[x.peer.Token].answers, x)
	if l.holders[x.call.ID] == x {
		delete(l.holders, x.call.ID)
	}
}

// prime marks an answer as one that its client can resume. It is false when
// such answers are being ended.
func (l *live) prime(x *exchange) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	x.primed = true
	return true
}

func (l *live) isPrimed(x *exchange) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return x.primed
}

// matching marks the open answers of a session with a JSON-RPC id (all of them
// when it is nil) as cancelled by their caller, and returns them.
func (l *live) matching(token, session string, rpc json.RawMessage) []*exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.callers[token]
	if c == nil {
		return nil
	}
	var out []*exchange
	for x := range c.answers {
		if x.call.Ref.Session == session && (rpc == nil || bytes.Equal(x.call.Ref.RPC, rpc)) {
			x.dropped.Store(true)
			out = append(out, x)
		}
	}
	return out
}

// open registers a stream. The newer stream of a session ends the older.
func (l *live) open(f *feed, p bridge.Peer) admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.caller(p)
	var old *feed
	if f.session != "" {
		old = l.feeds[f.session]
	}
	switch {
	case l.ended:
		return ending
	case old != nil:
		old.cancel(errReplaced)
	case len(c.feeds) >= maxStreams:
		return full
	}
	c.feeds[f] = struct{}{}
	if f.session != "" {
		l.feeds[f.session] = f
	}
	return admitted
}

func (l *live) close(f *feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.callers[f.token].feeds, f)
	if f.session != "" && l.feeds[f.session] == f {
		delete(l.feeds, f.session)
	}
}

// feed is the open event stream of a session.
func (l *live) feed(session string) *feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.feeds[session]
}

func (l *live) endFeed(session string) {
	if f := l.feed(session); f != nil {
		f.cancel(errEnded)
	}
}

func (l *live) endStreams() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, c := range l.callers {
		c.cut()
	}
}

func (l *live) cutToken(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.callers[token]; c != nil {
		c.cut()
	}
}

// cut ends what the caller can resume or open anew. live.mu is held; nothing
// here waits.
func (c *caller) cut() {
	for f := range c.feeds {
		f.cancel(errEnded)
	}
	for x := range c.answers {
		if x.primed {
			x.cancel(errEnded)
		}
	}
}

func (l *live) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.callers {
		if len(c.answers) > 0 || len(c.feeds) > 0 {
			return false
		}
	}
	return len(l.lost) == 0
}

func (l *live) peers() []Connected {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Connected, 0, len(l.callers))
	for token, c := range l.callers {
		out = append(out, Connected{token, c.name, c.client, c.era, len(c.feeds), len(c.answers), c.seen})
	}
	slices.SortFunc(out, func(a, b Connected) int { return strings.Compare(a.Name+a.Token, b.Name+b.Token) })
	return out
}

// bury remembers that a session was deleted.
func (l *live) bury(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if has(l.tombs, session) {
		return
	}
	l.tombs[session] = struct{}{}
	if len(l.order) < maxTombstones {
		l.order = append(l.order, session)
		return
	}
	delete(l.tombs, l.order[l.oldest])
	l.order[l.oldest] = session
	l.oldest = (l.oldest + 1) % maxTombstones
}

func (l *live) buried(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return has(l.tombs, session)
}
