package mcpfront

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// request is one JSON-RPC request with all that is known of its caller.
type request struct {
	*message
	w        http.ResponseWriter
	r        *http.Request
	peer     bridge.Peer
	host     string
	client   bridge.Client
	session  *session // nil in the stateless era
	revision string
	view     bridge.View
}

func (q *request) modern() bool { return q.session == nil }

// envelope is what stands before a result, with the id as it came.
func envelope(id json.RawMessage) []byte {
	b := make([]byte, 0, len(id)+32)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	return append(b, `,"result":`...)
}

var envelopeEnd = []byte("}")

// answer writes a result.
func (q *request) answer(result []byte) {
	_ = writeJSON(q.w, http.StatusOK, envelope(q.id), result, envelopeEnd) // a client that has left needs no answer
}

// fail writes an error. Before the stateless era errors in a request were
// answered with 200; since then the status says it too.
func (q *request) fail(code int, message string) {
	status := http.StatusOK
	if q.modern() {
		if status = http.StatusBadRequest; code == codeNoMethod {
			status = http.StatusNotFound
		}
	}
	(&fault{status, code, message, nil}).write(q.w, q.id)
}

// toolsList writes the cached list.
func (f *Front) toolsList(q *request) {
	if c := q.fields.get("cursor"); c != nil && string(c) != "null" {
		q.fail(codeInvalidParams, "the list has one page: there is no cursor")
		return
	}
	list := f.lists.of(q.view.Catalogue, q.peer)
	if q.modern() {
		q.answer(list.modern)
		return
	}
	q.answer(list.legacy)
}

// clientOf reads clientInfo.
func clientOf(raw json.RawMessage) bridge.Client {
	if len(raw) == 0 || raw[0] != '{' {
		return bridge.Client{}
	}
	info, err := members(raw)
	if err != nil {
		return bridge.Client{}
	}
	name, _ := text(info.get("name"))
	version, _ := text(info.get("version"))
	return bridge.Client{Name: clip(name), Version: clip(version)}
}

// accepts reports whether the Accept header names a media type, or with wild
// one of the patterns that cover it.
func accepts(r *http.Request, media string, wild bool) bool {
	values := r.Header["Accept"]
	if len(values) == 0 {
		return wild
	}
	for _, v := range values {
		for v != "" {
			var one string
			one, v, _ = strings.Cut(v, ",")
			one, _, _ = strings.Cut(one, ";")
			one = strings.TrimSpace(one)
			if strings.EqualFold(one, media) || wild && (one == "*/*" || one == "text/*") {
				return true
			}
		}
	}
	return false
}
