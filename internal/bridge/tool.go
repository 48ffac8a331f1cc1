package bridge

import "encoding/json"

// Tier is what the host says of a tool's effects. Only the literal "read"
// means that a call can be repeated; anything else may have effects.
type Tier string

// TierRead is the one tier with a meaning here.
const TierRead Tier = "read"

// Tool is one entry of a host's catalogue.
type Tool struct {
	Name       string          `json:"name"`
	Tier       Tier            `json:"tier,omitempty"`
	Source     string          `json:"source,omitempty"` // builtin, extension, mcp, sdk: the host's word
	Definition json.RawMessage `json:"definition"`       // the MCP Tool object, as the host described it
}

// ReadOnly reports whether calling the tool has no effects.
func (t Tool) ReadOnly() bool { return t.Tier == TierRead }

// Skipped is a tool that a host offered and that is not listed, with the reason.
type Skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Catalogue is what one host offers after policy. It never changes: a new one
// replaces it.
type Catalogue struct {
	Host    string    `json:"host"`              // name of the host; empty when none was ever attached
	Hash    string    `json:"hash"`              // of the tools after policy; equal hash, equal list
	Tools   []Tool    `json:"tools"`             // in the host's order
	Hidden  int       `json:"hidden,omitempty"`  // left out by exposure settings
	Skipped []Skipped `json:"skipped,omitempty"` // left out because something is wrong with them
}

// Tool finds a tool by name.
func (c *Catalogue) Tool(name string) (Tool, bool) {
	for _, t := range c.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// View is the current catalogue behind an address, and a channel that is
// closed when another one has taken its place.
type View struct {
	Catalogue *Catalogue
	Changed   <-chan struct{}
}
