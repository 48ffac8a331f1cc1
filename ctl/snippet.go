package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
)

// serverEntry is one server in the JSON that omp and Claude Code read.
type serverEntry struct {
	Type    string            `json:"type"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Timeout int64             `json:"timeout,omitempty"` // milliseconds, omp's key
}

// snippet is what goes to stdout.
func (r remoteConfig) snippet(name, target, bearer string) (string, error) {
	if r.client == clientCurl {
		return curlSnippet(target, bearer), nil
	}
	entry := serverEntry{Type: "http", URL: target, Headers: map[string]string{"Authorization": "Bearer " + bearer}}
	if r.client == clientOMP {
		entry.Timeout = ompTimeout.Milliseconds()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"mcpServers": map[string]serverEntry{name: entry}}); err != nil {
		return "", fmt.Errorf("write the config: %w", err)
	}
	return b.String(), nil
}

// curlSnippet is one request that lists the tools. The token goes in by stdin,
// so that it is in no process list; the shell's history has it all the same,
// which is why a variable is used when there is one.
func curlSnippet(target, bearer string) string {
	quoted := "'EOF'"
	if strings.HasPrefix(bearer, "${") {
		quoted = "EOF"
	}
	return `curl -sS -K - <<` + quoted + `
url = "` + target + `"
header = "Authorization: Bearer ` + bearer + `"
header = "Content-Type: application/json"
header = "Accept: application/json, text/event-stream"
header = "MCP-Protocol-Version: 2026-07-28"
header = "Mcp-Method: tools/list"
data = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{},\"io.modelcontextprotocol/clientInfo\":{\"name\":\"curl\",\"version\":\"1\"}}}}"
EOF
`
}

// digitWords replace digits in server names: omp drops digits from them, so
// web1 and web2 would both become mcp__web_….
var digitWords = []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}

// serverName is the name that the snippet gives to this bridge.
func (r remoteConfig) serverName() string {
	if r.local {
		return named("bridge", r.host)
	}
	return serverName(r.ssh, r.host)
}

// serverName is the name of this machine, or of one session on it, as clients
// write it into their tools' names: lower-case letters and dashes only, and
// different for different names.
func serverName(dest, session string) string {
	name := dest[strings.LastIndex(dest, "@")+1:]
	if name == "" || net.ParseIP(name) != nil {
		name, _ = os.Hostname()
	}
	name, _, _ = strings.Cut(name, ".")
	name = onlyLetters(name)
	if name == "" {
		name = "bridge"
	}
	return named(name, session)
}

// named adds a session to the name of a machine.
func named(machine, session string) string {
	if s := onlyLetters(session); s != "" {
		return machine + "-" + s
	}
	return machine
}

func onlyLetters(s string) string {
	var words []string
	word := ""
	flush := func() {
		if word != "" {
			words, word = append(words, word), ""
		}
	}
	for _, r := range strings.ToLower(s) {
		switch {
		case 'a' <= r && r <= 'z':
			word += string(r)
		case '0' <= r && r <= '9':
			flush()
			words = append(words, digitWords[r-'0'])
		default:
			flush()
		}
	}
	flush()
	return strings.Join(words, "-")
}
