package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Limits of a catalogue. One tool beyond them is left out and named; the rest
// of the list stands.
const (
	maxTools     = 2048
	maxToolBytes = 256 << 10 // of one definition: omp's largest has 12 kB
	maxListBytes = 8 << 20   // of all together: a client loads the list in one answer
	maxNameChars = 128       // as the MCP specification recommends
	maxDepth     = 64        // of nesting: clients recurse
	maxSkipped   = 256       // named; more are counted in one line
	maxShown     = 64        // characters of a bad name in a report, and bytes of a host's short words
)

// validate keeps the tools that every client can be shown. A name has 1 to 128
// printable characters, anything but control characters: the specification
// recommends less (letters, digits, _ - .) but forbids nothing, and a tool
// that is hidden is lost while one with an odd name is at worst renamed by a
// client.
func validate(tools []bridge.Tool) (valid []bridge.Tool, skipped []bridge.Skipped) {
	valid = make([]bridge.Tool, 0, min(len(tools), maxTools))
	seen := make(map[string]bool, len(tools))
	total, unnamed := 0, 0
	skip := func(name string, why string) {
		if len(skipped) >= maxSkipped {
			unnamed++
			return
		}
		skipped = append(skipped, bridge.Skipped{Name: printable(name, maxShown), Why: why})
	}
	for _, t := range tools {
		def, err := checkTool(t)
		switch {
		case err != nil:
			skip(t.Name, err.Error())
			continue
		case seen[t.Name]:
			skip(t.Name, "the name is given twice; the first one is listed")
			continue
		case len(valid) >= maxTools:
			skip(t.Name, fmt.Sprintf("more than %d tools", maxTools))
			continue
		case total+len(def) > maxListBytes:
			skip(t.Name, fmt.Sprintf("the list is over %d MiB", maxListBytes>>20))
			continue
		}
		seen[t.Name] = true
		total += len(def)
		t.Definition = def
		valid = append(valid, t)
	}
	if unnamed > 0 {
		skipped = append(skipped, bridge.Skipped{Name: "…", Why: fmt.Sprintf("and %d more", unnamed)})
	}
	return valid, skipped
}

// checkTool returns the definition to list, or why there is none.
func checkTool(t bridge.Tool) (json.RawMessage, error) {
	if err := checkName(t.Name); err != nil {
		return nil, err
	}
	if len(t.Tier) > maxShown || len(t.Source) > maxHelloText {
		return nil, errors.New("its tier or source is too long")
	}
	if len(t.Definition) > maxToolBytes {
		return nil, fmt.Errorf("its definition has %d bytes, more than %d", len(t.Definition), maxToolBytes)
	}
	if !utf8.Valid(t.Definition) {
		return nil, errors.New("its definition is not UTF-8")
	}
	if depth(t.Definition) > maxDepth {
		return nil, fmt.Errorf("its definition is nested deeper than %d levels", maxDepth)
	}
	var def map[string]json.RawMessage
	if err := json.Unmarshal(t.Definition, &def); err != nil || def == nil {
		return nil, errors.New("its definition is not a JSON object")
	}
	var name string
	if json.Unmarshal(def["name"], &name) != nil || name != t.Name {
		return nil, errors.New("its definition has another name")
	}
	for key, first := range map[string]byte{
		"title": '"', "description": '"', "annotations": '{', "_meta": '{', "execution": '{', "icons": '[',
	} {
		if v, given := def[key]; given && v[0] != first {
			return nil, fmt.Errorf("its %s has the wrong type", key)
		}
	}
	if out, given := def["outputSchema"]; given {
		if err := checkSchema(out); err != nil {
			return nil, fmt.Errorf("its output schema %w", err)
		}
	}
	in, given := def["inputSchema"]
	if !given || string(in) == "null" {
		return withSchema(t.Definition, given)
	}
	if err := checkSchema(in); err != nil {
		return nil, fmt.Errorf("its input schema %w", err)
	}
	return t.Definition, nil
}

func checkName(name string) error {
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return errors.New("it has no name")
	case !utf8.ValidString(name):
		return errors.New("its name is not UTF-8")
	case n > maxNameChars:
		return fmt.Errorf("its name has %d characters, more than %d", n, maxNameChars)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return errors.New("its name has a control character")
		}
	}
	return nil
}

// checkSchema asks of a schema what MCP asks: an object that describes one.
func checkSchema(raw json.RawMessage) error {
	var schema map[string]json.RawMessage
	if json.Unmarshal(raw, &schema) != nil || schema == nil {
		return errors.New("is not a JSON object")
	}
	if string(schema["type"]) != `"object"` {
		return errors.New(`is not of type "object"`)
	}
	return nil
}

// anyObject is the schema of a tool that came without one.
const anyObject = `"inputSchema":{"type":"object"}`

// withSchema gives a definition the schema it lacks; the other bytes stay,
// unless a null has to be taken out.
func withSchema(def json.RawMessage, null bool) (json.RawMessage, error) {
	if null {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(def, &fields); err != nil {
			return nil, err
		}
		fields["inputSchema"] = json.RawMessage(`{"type":"object"}`)
		return json.Marshal(fields)
	}
	body := bytes.TrimRight(def, " \t\r\n")
	out := append(bytes.Clone(body[:len(body)-1]), ","+anyObject+"}"...)
	return out, nil // there is a name before the comma
}

// depth is how deeply JSON text nests; broken text counts as it looks.
func depth(raw []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
