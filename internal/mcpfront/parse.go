package mcpfront

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"
)

// Limits of a request.
const (
	// maxDepth bounds nesting: far above any real argument, far below what
	// makes a recursive decoder behind us overflow its stack.
	maxDepth = 512
	// maxID bounds ids and progress tokens: both travel in event ids, which are
	// sent back in a request header.
	maxID = 256
	// bodyTimeout bounds how long a client may take to send one body.
	bodyTimeout = 60 * time.Second
)

// message is one JSON-RPC message, taken apart once. All pieces are parts of
// the body as it came.
type message struct {
	id       json.RawMessage // nil for a notification
	method   string          // empty for a response
	params   json.RawMessage // nil when absent
	fields   object          // of params
	meta     object          // of params._meta
	response bool            // the client answered something that we never asked
}

// readBody reads a request body within the limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *fault) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, &fault{http.StatusUnsupportedMediaType, codeInvalidRequest, "the content type must be application/json", nil}
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &fault{http.StatusUnsupportedMediaType, codeInvalidRequest, "content encodings are not supported", nil}
	}
	tooLarge := &fault{http.StatusRequestEntityTooLarge, codeInvalidRequest,
		fmt.Sprintf("the request is larger than %d bytes", limit), nil}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	var body []byte
	var err error
	if r.ContentLength >= 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, tooLarge
	}
	if err != nil {
		return nil, &fault{http.StatusBadRequest, codeParse, "the request body could not be read", nil}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// limitBody bounds the time in which a body has to come. It stays in force when
// the request is refused, since the server then still reads what it can of the
// body. Writers without deadlines do without.
func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
}

// parse takes a body apart. What it returns without a fault is one well-formed
// request, notification or response.
func parse(body []byte) (*message, *fault) {
	body = trim(body)
	if len(body) == 0 {
		return nil, badParse("the request body is empty")
	}
	if !utf8.Valid(body) {
		return nil, badParse("the request body is not UTF-8")
	}
	depth, end := measure(body)
	if depth > maxDepth {
		return nil, badRequest(fmt.Sprintf("the request is nested deeper than %d levels", maxDepth))
	}
	if end == 0 || !json.Valid(body[:end]) {
		return nil, badParse("the request body is not valid JSON")
	}
	if end != len(body) {
		return nil, badRequest("there is something after the JSON-RPC message")
	}
	switch body[0] {
	case '{':
	case '[':
		return nil, badRequest("batches are not supported: send one JSON-RPC message per request")
	default:
		return nil, badRequest("a JSON-RPC message is an object")
	}
	top, err := members(body)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	if s, _ := text(top.get("jsonrpc")); s != "2.0" {
		return nil, badRequest(`the member "jsonrpc" must be "2.0"`)
	}
	m := &message{}
	if m.id = top.get("id"); m.id != nil && !isID(m.id) {
		return nil, badRequest("an id is a number or a string of moderate length, never null")
	}
	if raw := top.get("method"); raw != nil {
		if m.method, err = text(raw); err != nil || m.method == "" {
			return nil, badRequest("the method must be a string")
		}
	} else if m.response = top.get("result") != nil || top.get("error") != nil; !m.response {
		return nil, badRequest("there is no method")
	}
	if m.params = top.get("params"); m.params != nil {
		if m.params[0] != '{' {
			return nil, badRequest("params must be an object")
		}
		if m.fields, err = members(m.params); err != nil {
			return nil, badRequest(err.Error())
		}
	}
	if raw := m.fields.get("_meta"); raw != nil && raw[0] == '{' {
		if m.meta, err = members(raw); err != nil {
			return nil, badRequest(err.Error())
		}
	}
	return m, nil
}

// isID reports whether raw can name a request or a progress: a JSON number or
// string that fits into an event id.
func isID(raw json.RawMessage) bool {
	if len(raw) == 0 || len(raw) > maxID {
		return false
	}
	c := raw[0]
	return c == '"' || c == '-' || ('0' <= c && c <= '9')
}

// progressToken is the token of a request whose caller wants progress.
func (m *message) progressToken() json.RawMessage {
	if raw := m.meta.get("progressToken"); isID(raw) {
		return raw
	}
	return nil
}

// trim drops JSON's white space, and only that, from both ends.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
