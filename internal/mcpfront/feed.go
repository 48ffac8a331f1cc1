package mcpfront

import (
	"context"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// keepAlive is how often every open stream gets a sign of life. Tunnels and
// proxies drop what is silent for 30 s, some clients after 60.
const keepAlive = 10 * time.Second

// listChanged is the one notification of a session's own stream.
const listChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// get opens a session's event stream, or one that continues an answer.
func (f *Front) get(w http.ResponseWriter, r *http.Request, peer bridge.Peer, host string) {
	if modernHeader(r) {
		notAllowed(w, "POST", "the stateless revisions have no stream of their own: use subscriptions/listen")
		return
	}
	if !accepts(r, mediaSSE[0], true) {
		notAllowed(w, "POST, DELETE", "a GET here answers with an event stream only")
		return
	}
	s, fault := f.sessionOf(r, peer, host)
	if fault != nil {
		notAllowed(w, "POST, DELETE", "an event stream belongs to a session: "+fault.message)
		return
	}
	last, ok := f.lastEvent(r, s)
	if !ok {
		notAllowed(w, "POST, DELETE", "that event is not one of this session's")
		return
	}
	view, fault := f.view(host)
	if fault != nil {
		fault.write(w, nil)
		return
	}
	f.seen(peer, s.client, eraLegacy)
	if last != nil && last.kind == eventOfCall {
		f.resume(w, r, peer, s, last)
		return
	}
	known := f.lists.of(view.Catalogue, peer).hash
	if last != nil {
		known = last.list
	}
	f.serveFeed(w, r, peer, s, known)
}

// serveFeed is the session's own event stream.
func (f *Front) serveFeed(w http.ResponseWriter, r *http.Request, peer bridge.Peer, s *session, known listHash) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	fd := &feed{peer.Token, s.key, cancel}
	verdict := f.live.open(fd, peer)
	if verdict == full {
		notAllowed(w, "POST, DELETE", "there are too many event streams")
		return
	}
	out := newAnswer(w)
	defer out.close()
	event := func(h listHash) string {
		return eventID{kind: eventOfSession, session: s.key, list: h, started: f.cfg.Now()}.seal(f.events)
	}
	if verdict == ending {
		_ = out.prime(event(known)) // a client that has left needs no answer
		return
	}
	defer f.live.close(fd)
	if out.prime(event(known)) != nil {
		return
	}
	f.follow(ctx, out, peer, s.host, known, func(h listHash) error {
		return out.event(event(h), []byte(listChanged))
	})
}

// follow writes to a stream until it ends: changed whenever the list that the
// peer sees is not the one its client knows, and comments.
func (f *Front) follow(ctx context.Context, out *answer, peer bridge.Peer, host string, known listHash, changed func(listHash) error) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for ctx.Err() == nil {
		view, fault := f.view(host)
		if fault != nil {
			return
		}
		if h := f.lists.of(view.Catalogue, peer).hash; h != known {
			if changed(h) != nil {
				return
			}
			known = h
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-view.Changed:
				waiting = false
			case <-tick.C:
				if expired(peer, f.cfg.Now()) || out.comment() != nil {
					return
				}
			}
		}
	}
}

func expired(p bridge.Peer, now time.Time) bool { return !p.Expires.IsZero() && !now.Before(p.Expires) }

// listen serves subscriptions/listen, the event stream of the stateless era.
func (f *Front) listen(q *request) {
	ctx, cancel := context.WithCancelCause(q.r.Context())
	defer cancel(nil)
	fd := &feed{token: q.peer.Token, cancel: cancel}
	switch f.live.open(fd, q.peer) {
	case full:
		(&fault{http.StatusTooManyRequests, codeBusy, "there are too many event streams", nil}).write(q.w, q.id)
		return
	case ending:
		q.w.Header().Set("Retry-After", "1")
		(&fault{http.StatusServiceUnavailable, codeBusy, "the bridge is restarting", nil}).write(q.w, q.id)
		return
	}
	defer f.live.close(fd)
	known := f.lists.of(q.view.Catalogue, q.peer).hash
	out := newAnswer(q.w)
	defer out.close()
	note := join(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"`,
		mcp.MetaKeySubscriptionID, `":`, q.id, `}}}`)

	result, fault := f.engine.listen(ctx, q.params, q.id, func(ack []byte, tools bool) {
		if out.event("", ack) != nil {
			cancel(errStuck)
		} else if tools {
			f.follow(ctx, out, q.peer, q.host, known, func(listHash) error { return out.event("", note) })
			cancel(errEnded) // also when the stream broke: mcp-go waits for it
		}
	})
	switch {
	case q.r.Context().Err() != nil:
	case fault != nil && !out.stream:
		fault.write(q.w, q.id)
	case fault == nil:
		_ = out.event("", join(envelope(q.id), result, envelopeEnd)) // a client that has left needs no answer
	}
}
