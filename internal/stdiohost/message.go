package stdiohost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// methodNotFound is JSON-RPC's code for a request that we do not serve.
const methodNotFound = -32601

// message is one JSON-RPC message of the child. The slices point into its line.
type message struct {
	id, params, result json.RawMessage
	failure            *rpcError
	method             string
	hasID              bool
}

// rpcError is a JSON-RPC error.
type rpcError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("error %d", e.Code)
	}
	return e.Message
}

var errMessage = errors.New("not a JSON-RPC message")

// parseMessage reads one message.
func parseMessage(line []byte) (message, error) {
	var m message
	err := hostlink.EachField(line, func(key, value []byte) error {
		switch string(key) {
		case "id":
			m.id, m.hasID = value, string(value) != "null"
		case "method":
			return json.Unmarshal(value, &m.method)
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			if string(value) != "null" {
				m.failure = readError(value)
			}
		}
		return nil
	})
	if err != nil {
		return message{}, err
	}
	if m.method == "" && (!m.hasID || (m.result == nil && m.failure == nil)) {
		return message{}, errMessage
	}
	return m, nil
}

// readError takes what it can of an error: it must not get lost for its form.
func readError(value []byte) *rpcError {
	e := new(rpcError)
	if json.Unmarshal(value, e) == nil {
		return e
	}
	var loose struct {
		Message any `json:"message"`
	}
	if json.Unmarshal(value, &loose) == nil && loose.Message != nil {
		return &rpcError{Message: fmt.Sprint(loose.Message)}
	}
	return &rpcError{Message: string(value)}
}

// parseID reads the id of an answer. Ours are integers; some programs give
// them back as strings.
func parseID(raw []byte) (int64, bool) {
	id, err := strconv.ParseInt(string(bytes.Trim(raw, `"`)), 10, 64)
	return id, err == nil
}

var (
	idAtHead = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,`)
	idAtTail = regexp.MustCompile(`,\s*"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// idOf finds the id of an answer of which only the ends are left.
func idOf(head, tail []byte) (int64, bool) {
	if m := idAtHead.FindSubmatch(head); m != nil {
		return parseID(m[1])
	}
	if m := idAtTail.FindSubmatch(tail); m != nil {
		return parseID(m[1])
	}
	return 0, false
}

// line takes one line of the child: a message, a batch of them (a revision
// had those), or chatter that does not belong there.
func (s *session) line(line []byte) {
	trimmed := bytes.TrimSpace(line)
	switch {
	case len(trimmed) == 0:
		return
	case trimmed[0] == '[':
		var batch []json.RawMessage
		if json.Unmarshal(trimmed, &batch) == nil {
			for _, m := range batch {
				s.message(m)
			}
			return
		}
	case trimmed[0] == '{':
		s.message(trimmed)
		return
	}
	s.out.line("not MCP: ", line)
}

func (s *session) message(line []byte) {
	m, err := parseMessage(line)
	if err != nil {
		s.log.Warn("the program sent a line that is no message", "err", err)
		s.out.line("not MCP: ", line)
		return
	}
	switch {
	case m.method == "":
		if id, ok := parseID(m.id); ok {
			s.answered(id, answer{result: m.result, failure: m.failure})
		}
	case m.hasID && m.method == "ping":
		s.reply(m.id, "result", struct{}{})
	case m.hasID: // roots, sampling, elicitation and whatever comes
		s.reply(m.id, "error", rpcError{Code: methodNotFound, Message: "Method not found"})
	case m.method == "notifications/progress":
		s.progress(m.params)
	case m.method == "notifications/tools/list_changed":
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// progress passes a message on to the call that it is about. A program that
// gives only numbers is shown by them.
func (s *session) progress(params json.RawMessage) {
	var p struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress json.RawMessage `json:"progress"`
		Total    json.RawMessage `json:"total"`
		Message  string          `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id, ok := parseID(p.Token)
	if !ok {
		return
	}
	s.mu.Lock()
	call := s.calls[id]
	s.mu.Unlock()
	if call == nil || call.progress == nil {
		return
	}
	text := p.Message
	if text == "" {
		text = string(p.Progress)
		if len(p.Total) > 0 && string(p.Total) != "null" {
			text += "/" + string(p.Total)
		}
	}
	call.progress(text)
}
