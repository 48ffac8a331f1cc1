package mcpfront

import (
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// modernHeader reports whether the version header names the stateless era.
func modernHeader(r *http.Request) bool {
	return mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
}

// isModern reports whether a request is of the stateless era: the header or
// the body says so, or the method exists in no other.
func isModern(r *http.Request, m *message) bool {
	if modernHeader(r) {
		return true
	}
	if v, err := text(m.meta.get(mcp.MetaKeyProtocolVersion)); err == nil && mcp.IsModernProtocol(v) {
		return true
	}
	return m.method == string(mcp.MethodServerDiscover) || m.method == string(mcp.MethodSubscriptionsListen)
}

// modern answers a request of the stateless era. Session ids and Last-Event-ID
// mean nothing in it and are ignored.
func (f *Front) modern(w http.ResponseWriter, r *http.Request, peer bridge.Peer, host string, m *message) {
	if bad := checkModern(r, m); bad != nil {
		bad.write(w, m.id)
		return
	}
	q := &request{message: m, w: w, r: r, peer: peer, host: host, revision: mcp.ProtocolVersion20260728,
		client: clientOf(m.meta.get(mcp.MetaKeyClientInfo))}
	var bad *fault
	if q.view, bad = f.view(host); bad != nil {
		bad.write(w, m.id)
		return
	}
	f.seen(peer, q.client, eraModern)
	switch m.method {
	case "tools/call":
		f.toolsCall(q)
	case "tools/list":
		f.toolsList(q)
	case string(mcp.MethodServerDiscover):
		result, bad := f.engine.discover(r.Context(), m.params)
		if bad != nil {
			bad.write(w, m.id)
			return
		}
		q.answer(result)
	case string(mcp.MethodSubscriptionsListen):
		f.listen(q)
	default:
		q.fail(codeNoMethod, "there is no such method in "+mcp.ProtocolVersion20260728)
	}
}

// checkModern makes the checks that the stateless revision demands of every request.
func checkModern(r *http.Request, m *message) *fault {
	if m.response {
		return badRequest("the stateless revision has no requests that a client could answer")
	}
	header := r.Header.Get(mcp.HeaderProtocolVersion)
	if header == "" {
		return &fault{http.StatusBadRequest, codeHeaderMismatch, "the header Mcp-Protocol-Version is missing", nil}
	}
	version, err := text(m.meta.get(mcp.MetaKeyProtocolVersion))
	if err != nil {
		return &fault{http.StatusBadRequest, codeInvalidParams, "_meta lacks " + mcp.MetaKeyProtocolVersion, nil}
	}
	if header != version {
		return &fault{http.StatusBadRequest, codeHeaderMismatch,
			"the header Mcp-Protocol-Version differs from " + mcp.MetaKeyProtocolVersion, nil}
	}
	if version != mcp.ProtocolVersion20260728 {
		data, _ := json.Marshal(map[string]any{"supported": mcp.ValidProtocolVersions, "requested": version})
		return &fault{http.StatusBadRequest, codeVersion, "this revision is not spoken here", data}
	}
	if caps := m.meta.get(mcp.MetaKeyClientCapabilities); len(caps) == 0 || caps[0] != '{' {
		return &fault{http.StatusBadRequest, codeInvalidParams, "_meta lacks " + mcp.MetaKeyClientCapabilities, nil}
	}
	// The check decodes params in its own way; it gets the one member that we
	// read, so that both see the same name.
	params := json.RawMessage(`{}`)
	if name := m.fields.get("name"); name != nil {
		params = object{{"name", name}}.bytes()
	}
	if err := mcp.ValidateStandardHeaders(r.Header.Get, version, mcp.MCPMethod(m.method), params); err != nil {
		return &fault{http.StatusBadRequest, codeHeaderMismatch, err.Error(), nil}
	}
	return nil
}
