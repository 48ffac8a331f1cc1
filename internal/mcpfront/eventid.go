package mcpfront

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

const headerLastEvent = "Last-Event-ID"

// An event id says what its stream was about, so that a client that comes back
// with it finds the stream again, also in the next daemon.
const (
	eventOfCall    = "call"
	eventOfSession = "session"
	eventFields    = 7
)

// eventID is what an event id says.
type eventID struct {
	kind     string
	session  string          // its key
	call     bridge.CallID   // of a call: which
	rpc      json.RawMessage // its JSON-RPC id
	progress json.RawMessage // its progress token, if it gave one
	started  time.Time       // when it came
	list     listHash        // of a session: what the client knows of the catalogue
}

// seal makes the text of an event id. Two of the same content differ: clients
// count a stream that brought a new id as progress and else give up.
func (e eventID) seal(s sealer) string {
	var nonce [6]byte
	_, _ = rand.Read(nonce[:]) // never fails: it ends the process instead
	about := []byte(e.call)
	if e.kind == eventOfSession {
		about = e.list[:]
	}
	key, _ := base64.RawURLEncoding.DecodeString(e.session) // made by us
	return s.seal([]byte(e.kind[:1]), key, about, e.rpc, e.progress,
		binary.BigEndian.AppendUint64(nil, uint64(e.started.UnixMilli())), nonce[:])
}

// openEvent reads an event id.
func openEvent(s sealer, text string) (eventID, bool) {
	v, ok := s.open(text, eventFields)
	if !ok || len(v[5]) != 8 {
		return eventID{}, false
	}
	e := eventID{
		session: base64.RawURLEncoding.EncodeToString(v[1]),
		started: time.UnixMilli(int64(binary.BigEndian.Uint64(v[5]))),
	}
	switch string(v[0]) {
	case eventOfCall[:1]:
		e.kind, e.call, e.rpc = eventOfCall, bridge.CallID(v[2]), v[3]
		if len(v[4]) > 0 {
			e.progress = v[4]
		}
		return e, isID(e.rpc)
	case eventOfSession[:1]:
		e.kind = eventOfSession
		return e, copy(e.list[:], v[2]) == len(e.list) && len(v[2]) == len(e.list)
	}
	return eventID{}, false
}

// lastEvent reads the Last-Event-ID of a request. It is nil when there is
// none, and not ok when it is forged or belongs to another session.
func (f *Front) lastEvent(r *http.Request, s *session) (*eventID, bool) {
	raw := r.Header.Get(headerLastEvent)
	if raw == "" {
		return nil, true
	}
	e, ok := openEvent(f.events, raw)
	return &e, ok && e.session == s.key
}
