package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

func TestClaudeCodeConnectsWithThePrintedConfig(t *testing.T) {
	t.Parallel()
	tools := bridgetest.Tools(t)
	b := startFixture(t)
	home := t.TempDir()
	config := run(t, b.Env, bridgetest.Binaries(t).Ctl, "print-remote-config", "reviewer", "--client", "claude-code", "--local")
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := clientEnv(home, tools, "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	out := run(t, env, tools.Claude, "mcp", "list")
	if !strings.Contains(out, b.URL) || !strings.Contains(out, "Connected") || strings.Contains(out, "Failed") {
		t.Errorf("claude mcp list with\n%s\nprinted\n%s", config, out)
	}
}
