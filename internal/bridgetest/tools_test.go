package bridgetest_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// The first test to run on a fresh machine: it installs the tools and shows that each of them starts.
func TestEveryToolStartsInItsPinnedVersion(t *testing.T) {
	tools := bridgetest.Tools(t)
	for _, tc := range []struct {
		name string
		argv []string
		want string
	}{
		{"bun", []string{tools.Bun, "--version"}, "1.4.5"},
		{"node", []string{tools.Node, "--version"}, "v22."},
		{"omp", []string{tools.Bun, tools.OMP, "--version"}, "18.1.16"},
		{"claude", []string{tools.Claude, "--version"}, "2.1.197"},
		{"tsc", []string{tools.Node, tools.TSC, "--version"}, "5.9.3"},
		{"conformance", []string{tools.Node, tools.Conformance, "--version"}, "0.1.16"},
		{"inspector", []string{tools.Node, tools.Inspector, "--cli", "--help"}, "--transport"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, tc.argv[0], tc.argv[1:]...)
			cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + tools.Bin + ":/usr/bin:/bin", "DISABLE_AUTOUPDATER=1", "NO_COLOR=1"}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("%s = %v, want %q in\n%s", strings.Join(tc.argv, " "), err, tc.want, out)
			}
		})
	}
}
