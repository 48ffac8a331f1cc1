package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// inspector runs one method of the MCP inspector's CLI against a bridge.
type inspector struct {
	tools       *bridgetest.Toolbox
	env         []string
	config, era string
}

func newInspector(t *testing.T, b *bridgetest.Bridge, tools *bridgetest.Toolbox, era string) inspector {
	t.Helper()
	home := t.TempDir()
	config := filepath.Join(home, "servers.json")
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"bridge": map[string]any{
		"type": "streamable-http", "url": b.URL,
		"headers": map[string]string{"Authorization": "Bearer " + token(t, b, "inspector")}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return inspector{tools: tools, env: clientEnv(home, tools), config: config, era: era}
}

func (i inspector) argv(args ...string) []string {
	return append([]string{i.tools.Node, i.tools.Inspector, "--cli", "--config", i.config, "--server", "bridge",
		"--protocol-era", i.era, "--format", "json", "--quiet"}, args...)
}

// do prints the method's result into v.
func (i inspector) do(t *testing.T, v any, args ...string) {
	t.Helper()
	out := run(t, i.env, i.argv(args...)...)
	doc := struct{ Result any }{v}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("the inspector printed %q: %v", out, err)
	}
}

type inspected struct {
	IsError bool
	Content []struct{ Type, Text string }
}

func TestInspectorCLIListsAndCallsInBothEras(t *testing.T) {
	t.Parallel()
	tools := bridgetest.Tools(t)
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			b := startFixture(t)
			i := newInspector(t, b, tools, era)

			var list struct{ Tools []struct{ Name string } }
			i.do(t, &list, "--method", "tools/list")
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			byName := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(wantSeen("").Tools, names, byName); diff != "" {
				t.Errorf("tools/list (-want +got):\n%s", diff)
			}

			for _, tc := range []struct {
				tool string
				args []string
				want inspected
			}{
				{"echo", []string{"--tool-args-json", `{"text":"grüße <&>"}`}, inspected{Content: []struct{ Type, Text string }{{"text", "grüße <&>"}}}},
				{"test_tool_with_progress", nil, inspected{Content: []struct{ Type, Text string }{{"text", "Progress was reported."}}}},
				{"test_image_content", nil, inspected{Content: []struct{ Type, Text string }{{"image", ""}}}},
			} {
				var got inspected
				i.do(t, &got, append([]string{"--method", "tools/call", "--tool-name", tc.tool}, tc.args...)...)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("tools/call %s (-want +got):\n%s", tc.tool, diff)
				}
			}
		})
	}
}

// The inspector's CLI has no cancel of its own; ending it closes its requests, which in the modern era means the same.
func TestEndingTheInspectorCancelsItsCall(t *testing.T) {
	t.Parallel()
	tools := bridgetest.Tools(t)
	b := startFixture(t)
	i := newInspector(t, b, tools, "modern")
	argv := i.argv("--method", "tools/call", "--tool-name", "hang")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = i.env, t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed is how it ends
	})
	c := goClient(t, b, "", nil)
	hangs := func(want string) func() bool {
		return func() bool { return c.text(t, "hangs", nil) == want }
	}
	bridgetest.Eventually(t, "the call runs", hangs("begun 1, cancelled 0"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	bridgetest.Eventually(t, "the tool is cancelled", hangs("begun 1, cancelled 1"))
}
