package hostlink

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxID is the first id that JavaScript cannot count to.
const maxID = 1 << 53

// maxMethod bounds a method's name.
const maxMethod = 64

// frame is one line, cut up. The slices point into the line.
type frame struct {
	id     int64 // 0: none
	method string
	body   json.RawMessage // params, result or error
	kind   frameKind
}

type frameKind int

const (
	frameRequest frameKind = iota + 1 // a request, or an event when the method is one
	frameResult
	frameError
	frameNotice
)

var errForm = errors.New("not a request, answer, event or notice")

// parseFrame cuts a line up. Its error says what is wrong, without quoting
// the line: it may hold a secret.
func parseFrame(line []byte) (frame, error) {
	var f frame
	var params, result, failure json.RawMessage
	var seen [5]bool
	err := EachField(line, func(key, value []byte) error {
		var n int
		var err error
		switch string(key) {
		case "id":
			n = 0
			f.id, err = parseID(value)
		case "method":
			n = 1
			f.method, err = parseMethod(value)
		case "params":
			n, params = 2, value
		case "result":
			n, result = 3, value
		case "error":
			n, failure = 4, value
		default:
			return nil
		}
		if seen[n] {
			return fmt.Errorf("%s is there twice", key)
		}
		seen[n] = true
		return err
	})
	if err != nil {
		return frame{}, err
	}
	switch hasID, hasMethod := seen[0], seen[1]; {
	case hasMethod && (seen[3] || seen[4]), seen[2] && !hasMethod:
		return frame{}, errForm
	case hasID && hasMethod:
		f.kind, f.body = frameRequest, params
	case hasMethod:
		f.kind, f.body = frameNotice, params
	case hasID && seen[3] && !seen[4]:
		f.kind, f.body = frameResult, result
	case hasID && seen[4] && !seen[3]:
		f.kind, f.body = frameError, failure
	default:
		return frame{}, errForm
	}
	return f, nil
}

func parseID(b []byte) (int64, error) {
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, errors.New("id is not a positive integer")
		}
		if n = n*10 + int64(c-'0'); n >= maxID {
			return 0, errors.New("id is too big")
		}
	}
	if n == 0 {
		return 0, errors.New("id is not a positive integer")
	}
	return n, nil
}

// parseMethod interns the names we know, so that a frame costs no string.
func parseMethod(b []byte) (string, error) {
	if len(b) < 3 || b[0] != '"' || len(b) > maxMethod+2 {
		return "", errors.New("method is not a short string")
	}
	name := b[1 : len(b)-1]
	if known, ok := methods[string(name)]; ok {
		return known, nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return "", errors.New("method is not a short string")
	}
	return s, nil
}

var methods = func() map[string]string {
	m := make(map[string]string)
	for _, name := range []string{MethodHello, MethodCall, MethodRequest, MethodPing, MethodAccepted, MethodProgress,
		MethodApproval, MethodCancel, MethodTools, MethodState, MethodBye, MethodLate, MethodAck, MethodYou, MethodFault} {
		m[name] = name
	}
	return m
}()

// isEvent reports whether a method with an id speaks about a request instead
// of making one.
func isEvent(method string) bool {
	switch method {
	case MethodAccepted, MethodProgress, MethodApproval, MethodCancel:
		return true
	}
	return false
}
