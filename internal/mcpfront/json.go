package mcpfront

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// object is the members of a JSON object in their order, undecoded.
type object []member

type member struct {
	key string
	raw json.RawMessage
}

// get is the value of a member, nil when there is none.
func (o object) get(key string) json.RawMessage {
	for i := range o {
		if o[i].key == key {
			return o[i].raw
		}
	}
	return nil
}

// manyMembers is where looking for a double key by comparing each with each
// becomes slower than a map.
const manyMembers = 16

// members splits a valid JSON object. A key that occurs twice is an error:
// two readers would see two different requests.
func members(raw []byte) (object, error) {
	var o object
	var seen map[string]struct{}
	i := skipSpace(raw, 1)
	for i < len(raw) && raw[i] != '}' {
		keyEnd := skipString(raw, i)
		key, err := text(raw[i:keyEnd])
		if err != nil {
			return nil, err
		}
		i = skipSpace(raw, keyEnd)
		i = skipSpace(raw, i+1) // the colon
		end := skipValue(raw, i)
		if len(o) == manyMembers {
			seen = make(map[string]struct{}, 2*manyMembers)
			for _, m := range o {
				seen[m.key] = struct{}{}
			}
		}
		if seen == nil && o.get(key) != nil || seen != nil && has(seen, key) {
			return nil, fmt.Errorf("the member %.40q occurs twice", key)
		}
		if seen != nil {
			seen[key] = struct{}{}
		}
		o = append(o, member{key, raw[i:end:end]})
		i = skipSpace(raw, end)
		if i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return o, nil
}

func has(set map[string]struct{}, key string) bool { _, ok := set[key]; return ok }

// bytes writes the object out again, compactly.
func (o object) bytes() json.RawMessage {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quote(m.key)...)
		b = append(b, ':')
		b = append(b, m.raw...)
	}
	return append(b, '}')
}

// elements splits a valid JSON array.
func elements(raw []byte) []json.RawMessage {
	var out []json.RawMessage
	i := skipSpace(raw, 1)
	for i < len(raw) && raw[i] != ']' {
		end := skipValue(raw, i)
		out = append(out, raw[i:end:end])
		i = skipSpace(raw, end)
		if i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return out
}

var errNotString = errors.New("not a string")

// text decodes a JSON string.
func text(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", errNotString
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errNotString
	}
	return s, nil
}

// quote encodes a string as JSON, without the escapes that only HTML needs.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes, and a buffer takes everything
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// compact removes white space between tokens; a value without any is returned
// as it is. The bytes of numbers and strings stay what they were.
func compact(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(raw, " \t\r\n") {
		return raw
	}
	var b bytes.Buffer
	b.Grow(len(raw))
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

// measure finds the end of the first JSON value and how deep it nests, without
// recursion and before anything else looks at it. The end is 0 when an object
// or array does not end; a scalar takes everything.
func measure(b []byte) (depth, end int) {
	if b[0] != '{' && b[0] != '[' {
		return 0, len(b)
	}
	level := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			level++
			if depth = max(depth, level); depth > maxDepth {
				return depth, 0
			}
		case '}', ']':
			if level--; level == 0 {
				return depth, i + 1
			}
		}
	}
	return depth, 0
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index after the valid JSON value that begins at i.
func skipValue(b []byte, i int) int {
	level := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = skipString(b, i) - 1; level == 0 {
				return i + 1
			}
		case '{', '[':
			level++
		case '}', ']':
			if level == 0 {
				return i // a scalar before the end of what holds it
			}
			if level--; level == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if level == 0 {
				return i
			}
		}
	}
	return i
}
