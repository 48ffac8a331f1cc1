package e2e_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

const (
	// programTime bounds one run of a client; each takes a few seconds, more when the machine is busy.
	programTime = 2 * time.Minute
	// attachStop is how long `a2actl attach` may take to say bye and end its program.
	attachStop = 10 * time.Second
)

// startFixture starts a bridge with the fixture attached by the real `a2actl attach`.
func startFixture(t *testing.T) *bridgetest.Bridge {
	t.Helper()
	b := bridgetest.Start(t, bridgetest.Options{})
	attachSelf(t, b, fixtureArg)
	return b
}

// attachSelf attaches this test binary, as the program that arg makes of it, by the real `a2actl attach`.
func attachSelf(t *testing.T, b *bridgetest.Bridge, arg string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	attach := exec.Command(bridgetest.Binaries(t).Ctl, "attach", "--name", "fixture", "--", self, arg)
	attach.Env, attach.Dir = b.Env, t.TempDir()
	attach.Stdout, attach.Stderr = &out, &out
	attach.WaitDelay = attachStop
	if err := attach.Start(); err != nil {
		t.Fatalf("start a2actl attach: %v", err)
	}
	t.Cleanup(func() {
		_ = attach.Process.Signal(syscall.SIGTERM) // it may have ended
		timer := time.AfterFunc(attachStop, func() { _ = attach.Process.Kill() })
		defer timer.Stop()
		if err := attach.Wait(); t.Failed() {
			t.Logf("a2actl attach: %v\n%s", err, out.String())
		}
	})
	b.WaitStatus(t, "the program is attached with its tools", func(s control.Status) bool {
		return len(s.Hosts) == 1 && s.Hosts[0].Tools > 0
	})
}

// token mints one with every tool.
func token(t *testing.T, b *bridgetest.Bridge, name string) string {
	t.Helper()
	return b.Token(t, auth.CreateOptions{Name: name})
}

// run runs a client program to its end and returns its standard output.
func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, t.TempDir()
	cmd.WaitDelay = attachStop
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\nstdout:\n%s\nstderr:\n%s", argv, err, out.String(), errOut.String())
	}
	return out.String()
}

// clientEnv is the environment of a client program: a home of its own, and node and bun in their pinned versions.
func clientEnv(home string, tools *bridgetest.Toolbox, more ...string) []string {
	return append([]string{"HOME=" + home, "PATH=" + tools.Bin + ":/usr/bin:/bin", "NO_COLOR=1"}, more...)
}
