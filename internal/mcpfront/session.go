package mcpfront

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Limits of sessions.
const (
	// sessionAge is how long a session lasts. Clients start a new one by
	// themselves, and a session costs nothing while it is not used.
	sessionAge = 7 * 24 * time.Hour
	// maxTombstones bounds how many deleted sessions are remembered; the oldest
	// is forgotten, and lives on until its age ends it.
	maxTombstones = 10_000
	// maxClientText bounds what a client's name and version take in its id.
	maxClientText = 64
	sessionFields = 7
)

const headerSession = "Mcp-Session-Id"

// session is what a session id says.
type session struct {
	key      string // the random part: names the session wherever its id would be too long
	token    string // of the peer that made it
	host     string // behind the path it was made at
	revision string // negotiated
	client   bridge.Client
	created  time.Time
}

// resumable reports whether clients of the revision know events that carry
// nothing but an id.
func (s *session) resumable() bool {
	return s.revision == "2025-11-25" || s.revision == "2025-06-18"
}

// mint makes a session and its id.
func (f *Front) mint(peer bridge.Peer, host, revision string, client bridge.Client) string {
	var key [12]byte
	_, _ = rand.Read(key[:]) // never fails: it ends the process instead
	created := binary.BigEndian.AppendUint64(nil, uint64(f.cfg.Now().Unix()))
	return f.sessions.seal([]byte(peer.Token), []byte(host), []byte(revision), created, key[:],
		[]byte(clip(client.Name)), []byte(clip(client.Version)))
}

// openSession reads a session id. It is good for the token and the path that
// it was made with, until it is deleted or too old. A clock that was set back
// makes no session bad.
func (f *Front) openSession(id string, peer bridge.Peer, host string) (*session, bool) {
	v, ok := f.sessions.open(id, sessionFields)
	if !ok || len(v[3]) != 8 {
		return nil, false
	}
	s := &session{
		token: string(v[0]), host: string(v[1]), revision: string(v[2]),
		created: time.Unix(int64(binary.BigEndian.Uint64(v[3])), 0),
		key:     base64.RawURLEncoding.EncodeToString(v[4]),
		client:  bridge.Client{Name: string(v[5]), Version: string(v[6])},
	}
	if s.token != peer.Token || s.host != host || f.cfg.Now().Sub(s.created) > sessionAge {
		return nil, false
	}
	return s, !f.live.buried(s.key)
}

// sessionOf finds the session of a legacy request, or the fault to answer:
// 400 without an id, 404 for one that is not good (clients then start anew).
func (f *Front) sessionOf(r *http.Request, peer bridge.Peer, host string) (*session, *fault) {
	id := r.Header.Get(headerSession)
	if id == "" {
		return nil, badRequest("the header Mcp-Session-Id is missing: start with initialize")
	}
	s, ok := f.openSession(id, peer, host)
	if !ok {
		return nil, &fault{http.StatusNotFound, codeNoSession, "there is no such session: start with initialize", nil}
	}
	return s, nil
}

// delete ends a session and its calls.
func (f *Front) delete(w http.ResponseWriter, r *http.Request, peer bridge.Peer, host string) {
	if modernHeader(r) {
		notAllowed(w, "POST", "the stateless revisions have no sessions to delete")
		return
	}
	s, fault := f.sessionOf(r, peer, host)
	if fault != nil {
		fault.write(w, nil)
		return
	}
	f.live.bury(s.key)
	f.cancel(peer, s.key, nil)
	f.live.endFeed(s.key)
	w.WriteHeader(http.StatusNoContent)
}

// clip shortens foreign text to what is kept of it, at a character's border.
func clip(s string) string {
	if len(s) <= maxClientText {
		return s
	}
	s = s[:maxClientText]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
