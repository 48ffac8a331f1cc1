package mcpfront

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// definition is a tool as clients see it: as the host described it, but for
// what the package comment names.
func definition(t bridge.Tool) (json.RawMessage, error) {
	raw := trim(t.Definition)
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, errors.New("its definition is not a JSON object")
	}
	if depth, _ := measure(raw); depth > maxDepth {
		return nil, errors.New("its definition is nested too deep")
	}
	def, err := members(compact(raw))
	if err != nil {
		return nil, err
	}
	changed := def.setSchema("inputSchema", true)
	changed = def.setSchema("outputSchema", false) || changed
	changed = def.setReadOnly(t.ReadOnly()) || changed
	if !changed {
		return compact(raw), nil
	}
	return def.bytes(), nil
}

// setSchema strips header annotations from a schema, and makes one if there
// must be one. It reports whether it changed anything.
func (o *object) setSchema(key string, must bool) bool {
	for i, m := range *o {
		if m.key == key && m.raw[0] == '{' {
			if !bytes.Contains(bytes.ToLower(m.raw), []byte("mcp-header")) {
				return false
			}
			(*o)[i].raw = stripSchema(m.raw)
			return true
		}
	}
	if must {
		o.set(key, json.RawMessage(`{"type":"object"}`))
	}
	return must
}

// setReadOnly makes the hint say what the tier says.
func (o *object) setReadOnly(readOnly bool) bool {
	hints := object{}
	if raw := o.get("annotations"); raw != nil && raw[0] == '{' {
		var err error
		if hints, err = members(raw); err != nil {
			hints = object{}
		}
	}
	const key = "readOnlyHint"
	old := string(hints.get(key))
	switch {
	case readOnly && old != "true":
		hints.set(key, json.RawMessage("true"))
	case !readOnly && old == "true":
		hints.drop(key)
	default:
		return false
	}
	o.set("annotations", hints.bytes())
	return true
}

func (o *object) set(key string, raw json.RawMessage) {
	for i := range *o {
		if (*o)[i].key == key {
			(*o)[i].raw = raw
			return
		}
	}
	*o = append(*o, member{key, raw})
}

func (o *object) drop(key string) {
	for i := range *o {
		if (*o)[i].key == key {
			*o = append((*o)[:i:i], (*o)[i+1:]...)
			return
		}
	}
}

const headerAnnotation = "x-mcp-header"

// stripSchema removes header annotations from a JSON schema. A property that
// happens to have that name is one of the author's and stays.
func stripSchema(raw json.RawMessage) json.RawMessage {
	switch raw[0] {
	case '[':
		b := []byte{'['}
		for i, e := range elements(raw) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, stripSchema(e)...)
		}
		return append(b, ']')
	case '{':
	default:
		return raw
	}
	o, err := members(raw)
	if err != nil {
		return raw
	}
	kept := o[:0]
	for _, m := range o {
		switch {
		case strings.EqualFold(m.key, headerAnnotation):
			continue
		case isData(m.key):
		case isNameMap(m.key) && m.raw[0] == '{':
			if names, err := members(m.raw); err == nil {
				for i := range names {
					names[i].raw = stripSchema(names[i].raw)
				}
				m.raw = names.bytes()
			}
		default:
			m.raw = stripSchema(m.raw)
		}
		kept = append(kept, m)
	}
	return kept.bytes()
}

// isData reports whether a keyword's value is an instance, not a schema.
func isData(key string) bool {
	switch key {
	case "const", "enum", "default", "example", "examples", "required":
		return true
	}
	return false
}

// isNameMap reports whether a keyword's value has names of the author's for keys.
func isNameMap(key string) bool {
	switch key {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		return true
	}
	return false
}
