package contrib_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/contrib"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

func TestTheEmbeddedExtensionIsWhole(t *testing.T) {
	t.Parallel()
	if err := fstest.TestFS(contrib.Extension(), "package.json", "src/index.ts", "src/link.ts", "src/calls.ts"); err != nil {
		t.Error(err)
	}
}

func TestInstallLookRemove(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "agent", "extensions", contrib.Name)
	look := func(want contrib.Installed) {
		t.Helper()
		got, err := contrib.Look(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Look (-want +got):\n%s", diff)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	v := contrib.Version()

	look(contrib.Installed{})
	must(contrib.Remove(dir))
	must(contrib.Install(dir))
	look(contrib.Installed{Present: true, Same: true, Version: v})
	must(contrib.Install(dir))

	must(os.WriteFile(filepath.Join(dir, "src", "left-from-1.0.ts"), []byte("old"), 0o600))
	look(contrib.Installed{Present: true, Version: v})
	said, err := os.ReadFile(filepath.Join(dir, "src", "version.ts"))
	must(err)
	if !strings.Contains(string(said), fmt.Sprintf("EXTENSION_VERSION = %q;", bridge.Version())) {
		t.Errorf("the installed extension does not call itself %s:\n%s", bridge.Version(), said)
	}
	must(os.WriteFile(filepath.Join(dir, "src", "version.ts"), []byte(`export const EXTENSION_VERSION = "0.9.0";`), 0o600))
	look(contrib.Installed{Present: true, Version: "0.9.0"})
	must(contrib.Install(dir))
	look(contrib.Installed{Present: true, Same: true, Version: v})

	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	must(contrib.Remove(dir))
	look(contrib.Installed{})
}

func TestALinkedExtensionIsLeftAlone(t *testing.T) {
	t.Parallel()
	work, dir := filepath.Join(t.TempDir(), "work"), filepath.Join(t.TempDir(), contrib.Name)
	if err := os.CopyFS(work, contrib.Extension()); err != nil {
		t.Fatal(err)
	}
	edited := filepath.Join(work, "src", "index.ts")
	if err := errors.Join(os.WriteFile(edited, []byte("edited"), 0o600), os.Symlink(work, dir)); err != nil {
		t.Fatal(err)
	}
	if err := contrib.Install(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := contrib.Look(dir); err != nil || !got.Linked || got.Same {
		t.Errorf("Look = %+v, %v; want a link to something else", got, err)
	}
	if err := contrib.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(edited); err != nil || string(data) != "edited" {
		t.Errorf("the linked directory lost its work: %q, %v", data, err)
	}
}

func TestSomethingElseIsNeverReplaced(t *testing.T) {
	t.Parallel()
	for name, manifest := range map[string]string{"another extension": `{"name":"other"}`, "no manifest": "", "garbage": "{"} {
		dir := filepath.Join(t.TempDir(), contrib.Name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if manifest != "" {
			if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for what, do := range map[string]func(string) error{"Install": contrib.Install, "Remove": contrib.Remove} {
			if err := do(dir); !errors.Is(err, contrib.ErrForeign) {
				t.Errorf("%s over %s: %v, want ErrForeign", what, name, err)
			}
		}
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
}

// The extension against the real packages of omp, in a copy that sees them as node_modules.
func TestExtensionTypesAndUnits(t *testing.T) {
	t.Parallel()
	tools := bridgetest.Tools(t)
	root := bridgetest.ModuleRoot(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "contrib", "omp-extension"))); err != nil {
		t.Fatal(err)
	}
	// a developer's own link has come along
	if err := os.Symlink(tools.NodeModules, filepath.Join(dir, "node_modules")); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	run := func(t *testing.T, name string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + tools.Bin + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "TMPDIR=" + bridgetest.SockDir(t),
			"A2A_TRANSCRIPTS=" + filepath.Join(root, "internal/hostlink/testdata/transcripts"),
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	t.Run("tsc", func(t *testing.T) { run(t, tools.Node, tools.TSC, "-p", ".") })
	t.Run("bun test", func(t *testing.T) { run(t, tools.Bun, "test") })
}
