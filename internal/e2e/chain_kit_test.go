package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// The chain is everything that a user has, in its real parts: `a2a-bridge serve`, `a2actl`, and omp with the extension
// that `a2actl omp install` put into its home. Nothing is told where the other parts are: they find each other by their
// user's directories.

// daemonStop is how long `a2a-bridge serve` may take to end: its own drain, and room for a busy machine.
const daemonStop = 30 * time.Second

// chain is one user of this machine with a running daemon. What bridgetest.Bridge can ask a daemon works here too.
type chain struct {
	*bridgetest.Bridge
	serve   *exec.Cmd
	log     string        // file that every process of the daemon appends to
	stopped chan struct{} // closed when the process has ended
}

// startChain starts the daemon; it ends with the test.
func startChain(t *testing.T) *chain {
	t.Helper()
	bridgetest.Tools(t) // decides whether this test can run, before anything is started
	home := bridgetest.SockDir(t)
	_, port, err := net.SplitHostPort(bridgetest.FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{log: filepath.Join(home, "daemon.log"), Bridge: &bridgetest.Bridge{
		Home: home, URL: "http://127.0.0.1:" + port + "/mcp",
		Env: append(bridgetest.Env(home), "A2A_BRIDGE_HTTP_PORT="+port, "NO_COLOR=1"),
	}}
	if err := os.Mkdir(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if c.Paths, err = config.ResolvePaths(c.env, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	c.Control = control.NewClient(c.Paths.ControlSocket)
	c.start(t)
	t.Cleanup(func() {
		c.kill(t, syscall.SIGTERM)
		if t.Failed() {
			text, _ := os.ReadFile(c.log) // it is there since start
			t.Logf("the daemon said:\n%s", text)
		}
	})
	return c
}

func (c *chain) env(key string) string {
	for _, pair := range slices.Backward(c.Env) {
		if value, ok := strings.CutPrefix(pair, key+"="); ok {
			return value
		}
	}
	return ""
}

func (c *chain) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the daemon has its own
	cmd := exec.Command(bridgetest.Binaries(t).Bridge, "serve")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.Env, c.Home, log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a2a-bridge serve: %v", err)
	}
	stopped := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(stopped)
	}()
	c.serve, c.stopped = cmd, stopped
	bridgetest.Eventually(t, "the daemon answers", func() bool {
		_, err := c.Control.Status(t.Context())
		return err == nil
	})
}

// kill ends the daemon by a signal.
func (c *chain) kill(t *testing.T, s syscall.Signal) {
	t.Helper()
	_ = c.serve.Process.Signal(s) // it may have ended
	select {
	case <-c.stopped:
	case <-time.After(daemonStop):
		_ = c.serve.Process.Kill()
		<-c.stopped
		t.Errorf("the daemon did not end in %s after %s", daemonStop, s)
	}
}

// restart ends the daemon by a signal and starts another one.
func (c *chain) restart(t *testing.T, s syscall.Signal) {
	t.Helper()
	before := c.serve.Process.Pid
	c.kill(t, s)
	c.start(t)
	if got := c.Status(t).Daemon.PID; got == nil || *got == before {
		t.Fatalf("the daemon is still the process %d", before)
	}
}

// ctl runs a2actl as the user and returns its standard output.
func (c *chain) ctl(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, c.Env, append([]string{bridgetest.Binaries(t).Ctl}, args...)...)
}

// user makes o the omp of this user: same home, extension installed by a2actl, and no word on where the socket is.
func (c *chain) user(t *testing.T, o bridgetest.OMPOptions) bridgetest.OMPOptions {
	t.Helper()
	c.ctl(t, "omp", "install")
	o.Plain, o.Home, o.Dir = true, c.Home, filepath.Join(c.Home, "app")
	o.Env = append(o.Env, "XDG_RUNTIME_DIR="+c.env("XDG_RUNTIME_DIR"))
	return o
}

// lend starts the user's omp and waits until the daemon has its tools.
func (c *chain) lend(t *testing.T, o bridgetest.OMPOptions) *bridgetest.OMP {
	t.Helper()
	omp := bridgetest.StartOMP(t, c.user(t, o))
	c.awaitHost(t)
	return omp
}

// awaitHost waits until one host is attached with its tools.
func (c *chain) awaitHost(t *testing.T) control.Host {
	t.Helper()
	return c.WaitStatus(t, "one omp is attached with its tools", func(s control.Status) bool {
		return len(s.Hosts) == 1 && s.Hosts[0].Tools > 0 && s.Hosts[0].State != "not_ready"
	}).Hosts[0]
}

// lastCall waits until the newest call is over and returns its story as the ledger has it.
func (c *chain) lastCall(t *testing.T) control.CallRecord {
	t.Helper()
	var last control.CallRecord
	bridgetest.Eventually(t, "the newest call is over", func() bool {
		list, err := c.Control.Calls(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Calls) == 1 {
			last = list.Calls[0]
		}
		return last.EndedAt != nil
	})
	return last
}

// wantCall compares the story of the newest call.
func (c *chain) wantCall(t *testing.T, tool string, state bridge.State, executed bridge.Executed) {
	t.Helper()
	if got := c.lastCall(t); got.Tool != tool || got.State != string(state) || got.Executed != executed {
		t.Errorf("the audit says: tool %q, state %q, executed %q; want %q, %q, %q", got.Tool, got.State, got.Executed, tool, state, executed)
	}
}

// words are a file's words, none when it is not there.
func words(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// gate is a command that notes that it runs, says something, and waits for a file.
func gate(name string) string {
	return fmt.Sprintf("echo run >> %[1]s.ledger; echo %[1]s-begun; until [ -e %[1]s.go ]; do sleep 0.05; done; echo %[1]s-ended", name)
}
