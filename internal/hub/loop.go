package hub

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// A bridge sees itself when a host's own mcp.json names it: the host gets its
// own tools back as mcp__SERVER_TOOL and offers those too, and the next time
// mcp__SERVER_mcp_SERVER_TOOL, without end. Two bridges whose hosts use each
// other do the same in two steps.
//
// The names alone prove nothing: two machines with the same omp have the same
// tools, and one may well use the other's. Nor can a mark in the list help,
// since hosts drop what they do not know. Growth is the proof: a tool that
// consists of a prefix and the name of a tool that we list and that has the
// same server at its own beginning, with the same description, has been
// through us. Then everything under that prefix is ours.
//
// Found prefixes are remembered with the catalogue, so that the next omp in
// that directory does not start the circle again, as long as everything under
// them is still a tool of ours.

// whyOwn is the reason for a dropped tool.
const whyOwn = "comes back from this bridge"

// mcpPrefix begins the names that hosts give to tools of MCP servers.
const mcpPrefix = "mcp__"

// dropOwn takes this bridge's own tools out of what a host offers. It returns
// the prefixes found so far.
func (h *Hub) dropOwn(tools []bridge.Tool, loops []string) (kept []bridge.Tool, dropped []bridge.Skipped, found []string) {
	if !slices.ContainsFunc(tools, isMCP) {
		return tools, nil, loops
	}
	own := h.listed()
	for _, p := range loops {
		if stillOwn(tools, p, own) {
			found = append(found, p)
		}
	}
	for _, t := range tools {
		if p := loopPrefix(t, own); p != "" && !hasPrefix(p, found) {
			found = append(found, p)
		}
	}
	kept = make([]bridge.Tool, 0, len(tools))
	for _, t := range tools {
		if isMCP(t) && hasPrefix(t.Name, found) {
			dropped = append(dropped, bridge.Skipped{Name: t.Name, Why: whyOwn})
			continue
		}
		kept = append(kept, t)
	}
	if len(dropped) > maxSkipped {
		dropped = dropped[:maxSkipped]
	}
	return kept, dropped, found
}

// listed indexes what our addresses list by the name that a host would make of
// it behind a prefix.
func (h *Hub) listed() map[string][]bridge.Tool {
	own := map[string][]bridge.Tool{}
	for _, v := range h.views {
		for _, t := range v.catalogue.Tools {
			key := plainName(t.Name)
			own[key] = append(own[key], t)
		}
	}
	return own
}

// loopPrefix returns the prefix under which our own tools come back, if this
// tool proves one.
func loopPrefix(t bridge.Tool, own map[string][]bridge.Tool) string {
	if !isMCP(t) {
		return ""
	}
	for i := len(mcpPrefix); i < len(t.Name); i++ {
		if t.Name[i] != '_' {
			continue
		}
		for _, o := range own[t.Name[i+1:]] {
			if sharesServer(t.Name, o.Name) && description(t) == description(o) {
				return t.Name[:i+1]
			}
		}
	}
	return ""
}

// sharesServer reports whether two names begin with the same server.
func sharesServer(a, b string) bool {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return strings.LastIndexByte(a[:n], '_') > len(mcpPrefix) && strings.HasPrefix(a, mcpPrefix)
}

// stillOwn reports whether everything under a prefix is what we list.
func stillOwn(tools []bridge.Tool, prefix string, own map[string][]bridge.Tool) bool {
	for _, t := range tools {
		rest, under := strings.CutPrefix(t.Name, prefix)
		if !under || !isMCP(t) || len(t.Name) >= cappedName {
			continue
		}
		same := false
		for _, o := range own[rest] {
			same = same || description(o) == description(t)
		}
		if !same && !strings.HasPrefix(rest, strings.TrimSuffix(plainName(prefix), "_")) {
			return false
		}
	}
	return true
}

// cappedName is the length from which omp shortens a name and adds a hash, so
// that nothing can be read from it.
const cappedName = 64

func isMCP(t bridge.Tool) bool {
	return strings.HasPrefix(t.Name, mcpPrefix) && (t.Source == "" || t.Source == sourceMCP)
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// plainName is what omp makes of a tool's name behind a server's: lower case
// letters and single underscores.
func plainName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r < 'a' || r > 'z' {
			r = '_'
		}
		if r == '_' && (b.Len() == 0 || strings.HasSuffix(b.String(), "_")) {
			continue
		}
		b.WriteRune(r)
	}
	return strings.TrimSuffix(b.String(), "_")
}

func description(t bridge.Tool) string {
	var d struct{ Description string }
	_ = json.Unmarshal(t.Definition, &d) // it has been checked
	return d.Description
}
