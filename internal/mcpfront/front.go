package mcpfront

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Hub is what the front needs of it.
type Hub interface {
	// Call runs a call to its end. It returns an error only when ctx ended
	// after the call had been handed over: then the call goes on unwatched.
	Call(ctx context.Context, c bridge.Call, w bridge.Watcher) (bridge.Outcome, error)
	// Join waits for a call that was started before, perhaps by an earlier
	// daemon, in place of its earlier watcher. The error is bridge.NotFound when
	// the call is unknown or another token's.
	Join(ctx context.Context, id bridge.CallID, token string, w bridge.Watcher) (bridge.Outcome, error)
	// Delivered says that the outcome was written to its caller.
	Delivered(id bridge.CallID)
	// Cancel ends all open calls that match and says how many there were.
	Cancel(match func(bridge.Call) bool, why bridge.Kind) int
	// View is the catalogue behind an address ("" is main); bridge.NotFound for
	// a name that was never seen.
	View(host string) (bridge.View, error)
}

// Config is everything a Front needs.
type Config struct {
	Hub     Hub
	Key     []byte // 32 bytes or more; session and event ids made with it stay good while it does
	Body    int64  // largest request body in bytes
	Version string // of the bridge, for clients
	Now     func() time.Time
	Log     *slog.Logger
	Seen    func(p bridge.Peer, c bridge.Client, era string) // may be nil; called for each request
}

// The two eras of the protocol, as Seen and Connected name them.
const (
	eraLegacy = "legacy"
	eraModern = "modern"
)

// minKey is the shortest key that is accepted: the size of the hash below it.
const minKey = 32

// Front answers MCP requests. Make one with New.
type Front struct {
	cfg      Config
	engine   *engine
	sessions sealer
	events   sealer
	lists    listings
	live     *live
}

// New builds a Front.
func New(cfg Config) (*Front, error) {
	switch {
	case cfg.Hub == nil:
		return nil, errors.New("mcpfront: no hub")
	case len(cfg.Key) < minKey:
		return nil, errors.New("mcpfront: the key is too short")
	case cfg.Body <= 0:
		return nil, errors.New("mcpfront: no body limit")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Seen == nil {
		cfg.Seen = func(bridge.Peer, bridge.Client, string) {}
	}
	engine, err := newEngine(cfg.Version)
	if err != nil {
		return nil, err
	}
	return &Front{
		cfg:      cfg,
		engine:   engine,
		sessions: newSealer(cfg.Key, "mcp session"),
		events:   newSealer(cfg.Key, "mcp event"),
		lists:    listings{server: engine.identity, log: cfg.Log},
		live:     newLive(),
	}, nil
}

// ServeHTTP answers a request to /, /mcp or /mcp/{host} whose caller has been
// authenticated: the peer is in the request's context. The server must have no
// ReadTimeout and no WriteTimeout: they would cut long calls and streams. The
// front sets deadlines of its own where something has to move.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, ok := bridge.PeerFrom(r.Context())
	if !ok {
		f.cfg.Log.Error("mcp request without a peer: authentication is not wired", "path", r.URL.Path)
		http.Error(w, "the bridge is not set up correctly", http.StatusInternalServerError)
		return
	}
	limitBody(w, r)
	host, ok := hostOf(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		badRequest("only a POST has a body here").write(w, nil)
		return
	}
	switch r.Method {
	case http.MethodPost:
		f.post(w, r, peer, host)
	case http.MethodGet:
		f.get(w, r, peer, host)
	case http.MethodDelete:
		f.delete(w, r, peer, host)
	default:
		notAllowed(w, "GET, POST, DELETE", r.Method+" is not part of MCP")
	}
}

// hostOf is the name of the host that a path addresses, "" for main.
func hostOf(path string) (string, bool) {
	if path == "/" || path == "/mcp" {
		return "", true
	}
	name, ok := strings.CutPrefix(path, "/mcp/")
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// post answers one JSON-RPC message.
func (f *Front) post(w http.ResponseWriter, r *http.Request, peer bridge.Peer, host string) {
	body, fault := readBody(w, r, f.cfg.Body)
	if fault != nil {
		fault.write(w, nil)
		return
	}
	m, fault := parse(body)
	if fault != nil {
		fault.write(w, nil)
		return
	}
	if m.id == nil {
		f.notification(r, peer, host, m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if isModern(r, m) {
		f.modern(w, r, peer, host, m)
		return
	}
	f.legacy(w, r, peer, host, m)
}

// view is the catalogue behind an address, or the fault to answer.
func (f *Front) view(host string) (bridge.View, *fault) {
	v, err := f.cfg.Hub.View(host)
	if err != nil || v.Catalogue == nil {
		return bridge.View{}, &fault{http.StatusNotFound, codeInvalidRequest,
			"no session of that name was ever attached to this bridge", nil}
	}
	return v, nil
}

// Idle reports whether no answer is open, no stream is, and no closed request
// waits for its client to come back.
func (f *Front) Idle() bool { return f.live.idle() }

// EndStreams ends event streams and every answer that its client can resume,
// for good: what comes later ends at once too. Plain answers go on.
func (f *Front) EndStreams() { f.live.endStreams() }

// CutToken ends the streams of one token, as after it was rotated or revoked.
// Resumable answers end too, and their calls go on: who has the new token can
// fetch the result.
func (f *Front) CutToken(token string) { f.live.cutToken(token) }

// Connected is a caller that has been seen since the daemon started.
type Connected struct {
	Token    string        // id of the token's record
	Name     string        // and its name
	Client   bridge.Client // the last one that used it
	Era      string        // legacy or modern
	Streams  int           // open event streams that belong to no call
	Running  int           // open answers to calls
	LastSeen time.Time
}

// Peers lists the callers seen since the daemon started, both eras alike.
func (f *Front) Peers() []Connected { return f.live.peers() }
