package hostlink

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// marshal is json.Marshal without its HTML escaping, which would change the
// bytes of nested raw JSON.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// oneLine returns raw without newlines. In JSON they can only stand between
// tokens, so a value without any is already fit for a frame.
func oneLine(raw json.RawMessage) (json.RawMessage, error) {
	if bytes.IndexByte(raw, '\n') < 0 {
		return raw, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// payload is what follows the head of a frame: raw JSON goes out as it is,
// everything else is encoded.
func payload(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if len(v) == 0 {
			return json.RawMessage("{}"), nil
		}
		return oneLine(v)
	case CallParams:
		return v.encode()
	case *CallParams:
		return v.encode()
	default:
		return marshal(v)
	}
}

// encode splices the arguments in instead of having encoding/json read them
// again: they can be a mebibyte, on the path of every call.
func (p *CallParams) encode() (json.RawMessage, error) {
	args, err := oneLine(p.Args)
	if err != nil {
		return nil, err
	}
	head := *p
	head.Args = nil
	if len(head.Ref) == 0 {
		head.Ref = json.RawMessage("{}")
	}
	raw, err := marshal(struct {
		*CallParams
		Args int `json:"args,omitempty"` // hides the field of CallParams
	}{CallParams: &head})
	if err != nil || len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if err != nil {
		return nil, err
	}
	raw = raw[:len(raw)-1]
	out := make(json.RawMessage, 0, len(raw)+len(args)+len(`,"args":}`))
	out = append(out, raw...)
	out = append(out, `,"args":`...)
	out = append(out, args...)
	return append(out, '}'), nil
}

// appendHead begins a frame: everything up to the payload.
func appendHead(b []byte, id int64, method, key string) []byte {
	b = append(b, '{')
	if id > 0 {
		b = append(b, `"id":`...)
		b = strconv.AppendInt(b, id, 10)
		b = append(b, ',')
	}
	if method != "" {
		b = append(b, `"method":"`...)
		b = append(b, method...) // our constants only
		b = append(b, `",`...)
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

// MarshalJSON writes empty lists as [].
func (h Hello) MarshalJSON() ([]byte, error) {
	type plain Hello
	h.Capabilities, h.Running, h.Unacked = list(h.Capabilities), list(h.Running), list(h.Unacked)
	return marshal(plain(h))
}

// MarshalJSON writes empty lists as [].
func (w Welcome) MarshalJSON() ([]byte, error) {
	type plain Welcome
	w.Resumed, w.Names = list(w.Resumed), list(w.Names)
	return marshal(plain(w))
}

// MarshalJSON writes an empty list as [].
func (t Tools) MarshalJSON() ([]byte, error) {
	type plain Tools
	t.Tools = list(t.Tools)
	return marshal(plain(t))
}

// MarshalJSON writes an empty list as [].
func (y You) MarshalJSON() ([]byte, error) {
	type plain You
	y.Peers = list(y.Peers)
	return marshal(plain(y))
}

// MarshalJSON writes an empty list as [].
func (r StatusReply) MarshalJSON() ([]byte, error) {
	type plain StatusReply
	r.Tokens = list(r.Tokens)
	return marshal(plain(r))
}

func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
