package e2e_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// TestChainOMPThatNamesItsOwnBridgeLendsItsToolsOnce: an omp whose own mcp.json holds the config that was meant for another
// machine gets its own tools back, and would lend those too, and so on without end. What it has from another server stays.
func TestChainOMPThatNamesItsOwnBridgeLendsItsToolsOnce(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	o := c.user(t, bridgetest.OMPOptions{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		MCPServers map[string]any `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(c.ctl(t, "print-remote-config", "laptop", "--client", "omp", "--local")), &config); err != nil {
		t.Fatal(err)
	}
	config.MCPServers["other"] = map[string]any{"type": "stdio", "command": self, "args": []string{fixtureArg}}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	writeMCP(t, o, string(raw))
	omp := bridgetest.StartOMP(t, o)
	client := goClient(t, c.Bridge, sessionRevision, nil)
	list := func() map[string]bool {
		t.Helper()
		tools, err := client.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, tool := range tools.Tools {
			names[tool.Name] = true
		}
		return names
	}
	copies := func() (found []string) {
		t.Helper()
		for name := range list() {
			if strings.HasPrefix(name, "mcp__bridge_") {
				found = append(found, name)
			}
		}
		return found
	}

	bridgetest.Eventually(t, "the copies are found out, and the list has none", func() bool {
		return len(c.Status(t).Catalogue.Skipped) > 0 && len(copies()) == 0 && list()["mcp__other_echo"]
	})
	var status control.Status
	if err := json.Unmarshal([]byte(c.ctl(t, "status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	skipped := map[string]string{}
	for _, s := range status.Catalogue.Skipped {
		skipped[s.Name] = s.Why
	}
	for _, name := range []string{"mcp__bridge_read", "mcp__bridge_bash"} {
		if !strings.Contains(skipped[name], "this bridge") {
			t.Errorf("a2actl status --json does not name %s: %q", name, skipped)
		}
	}

	// The circle stays closed when omp starts again and announces everything anew.
	omp.CloseInput()
	omp.AwaitExit(t)
	next := bridgetest.StartOMP(t, o)
	bridgetest.Eventually(t, "the next omp in that place has both servers", func() bool {
		s := c.Status(t)
		return len(s.Hosts) == 1 && s.Hosts[0].PID == next.PID() && len(s.Catalogue.Skipped) > 0 && list()["mcp__other_echo"]
	})
	if got := copies(); len(got) > 0 {
		t.Errorf("the list has copies again: %q", got)
	}
	if got := client.text(t, "mcp__other_echo", args{"text": "from the other server"}); !strings.Contains(got, "from the other server") {
		t.Errorf("mcp__other_echo = %q", got)
	}
	if got := client.text(t, "bash", args{"command": "echo its own"}); !strings.Contains(got, "its own") {
		t.Errorf("bash = %q", got)
	}
}
