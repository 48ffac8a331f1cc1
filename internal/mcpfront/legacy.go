package mcpfront

import (
	"net/http"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// legacyVersions are the revisions that have sessions.
var legacyVersions = mcp.LegacyProtocolVersions()

// legacy answers a request of the session era.
func (f *Front) legacy(w http.ResponseWriter, r *http.Request, peer bridge.Peer, host string, m *message) {
	if m.response { // we ask clients nothing, so there is nothing to match it with
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.method == "initialize" {
		f.initialize(w, r, peer, host, m)
		return
	}
	s, fault := f.sessionOf(r, peer, host)
	if fault != nil {
		fault.write(w, m.id)
		return
	}
	if v := r.Header.Get(mcp.HeaderProtocolVersion); v != "" && !slices.Contains(legacyVersions, v) {
		badRequest("the header Mcp-Protocol-Version names no revision that is spoken here").write(w, m.id)
		return
	}
	q := &request{message: m, w: w, r: r, peer: peer, host: host, client: s.client, session: s, revision: s.revision}
	if q.view, fault = f.view(host); fault != nil {
		fault.write(w, m.id)
		return
	}
	f.seen(peer, s.client, eraLegacy)
	switch m.method {
	case "tools/call":
		f.toolsCall(q)
	case "tools/list":
		f.toolsList(q)
	case "ping":
		q.answer([]byte("{}"))
	default:
		q.fail(codeNoMethod, "there is no such method here")
	}
}

// initialize starts a session. An id that the client still has from an earlier
// one does not matter.
func (f *Front) initialize(w http.ResponseWriter, r *http.Request, peer bridge.Peer, host string, m *message) {
	if _, fault := f.view(host); fault != nil {
		fault.write(w, m.id)
		return
	}
	asked := "none" // anything that is no revision: a missing version has a meaning of its own
	if raw := m.fields.get("protocolVersion"); raw == nil {
		asked = ""
	} else if s, err := text(raw); err == nil {
		asked = s
	}
	client := clientOf(m.fields.get("clientInfo"))
	result, revision, err := f.engine.initialize(r.Context(), asked, client)
	if err != nil {
		f.cfg.Log.Error("initialize failed", "err", err)
		(&fault{http.StatusInternalServerError, mcp.INTERNAL_ERROR, "initialize failed", nil}).write(w, m.id)
		return
	}
	w.Header().Set(headerSession, f.mint(peer, host, revision, client))
	f.seen(peer, client, eraLegacy)
	_ = writeJSON(w, http.StatusOK, envelope(m.id), result, envelopeEnd) // a client that has left needs no answer
}

// notification takes what needs no answer. Only a cancelled call of a living
// session means anything; everything else, also on a dead session, costs
// nothing and is answered alike, since clients repeat what is refused.
func (f *Front) notification(r *http.Request, peer bridge.Peer, host string, m *message) {
	if m.method != "notifications/cancelled" {
		return
	}
	rpc := m.fields.get("requestId")
	if !isID(rpc) {
		return
	}
	if s, ok := f.openSession(r.Header.Get(headerSession), peer, host); ok {
		f.cancel(peer, s.key, rpc)
	}
}

// seen records a caller.
func (f *Front) seen(peer bridge.Peer, client bridge.Client, era string) {
	f.live.seen(peer, client, era, f.cfg.Now())
	f.cfg.Seen(peer, client, era)
}
