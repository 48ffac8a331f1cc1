package e2e_test

import (
	"bufio"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// TestAStopIsCleanWhateverTheStateDirectoryHolds: files of the daemon that are damaged, or no files at all, keep it neither
// from serving nor from ending well (an end that failed would make systemd start it anew).
func TestAStopIsCleanWhateverTheStateDirectoryHolds(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(path string) error{
		"cut off":     func(path string) error { return os.WriteFile(path, []byte(`{"version":1,"known":[{"na`), 0o600) },
		"null":        func(path string) error { return os.WriteFile(path, []byte("null\n"), 0o600) },
		"binary":      func(path string) error { return os.WriteFile(path, []byte("\x00\xff\xfe\n\x00"), 0o600) },
		"deep":        func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("[", 1<<20)), 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	}
	files := []string{"hosts.json", "catalogue.json", "paused.json", "audit.jsonl", "session.key", "token-use.json", "last-stop.json"}
	for kind, damage := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			home := bridgetest.SockDir(t)
			state := filepath.Join(home, "state/a2a-bridge")
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				if err := damage(filepath.Join(state, name)); err != nil {
					t.Fatal(err)
				}
			}
			b := bridgetest.Start(t, bridgetest.Options{Home: home}) // and it fails the test if the stop fails
			b.AttachScripted(t, bridgetest.HostOptions{Tools: fieldTools()})
			c := newCaller(t, b, "laptop")
			c.initialize()
			if r := c.result("echo", `{"a":1}`); r.status != http.StatusOK || !strings.Contains(r.body, `{\"a\":1}`) {
				t.Errorf("a call that only reads: %d %s", r.status, r.body)
			}
		})
	}
}

// daemon is the real program in a home of its own.
type daemon struct {
	t    *testing.T
	env  []string
	addr string
	cmd  *exec.Cmd
}

// start runs the program and waits until it answers.
func (d *daemon) start() {
	d.t.Helper()
	_, port, _ := strings.Cut(d.addr, ":")
	d.cmd = exec.Command(bridgetest.Binaries(d.t).Bridge, "serve", "--http-port", port)
	d.cmd.Env = d.env
	pipe, err := d.cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatalf("start a2a-bridge: %v", err)
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "msg=ready") {
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case ok := <-ready:
		if !ok {
			d.t.Fatal("a2a-bridge ended at once")
		}
	case <-time.After(fieldTime):
		d.t.Fatal("a2a-bridge was not ready in time")
	}
}

// kill ends it with a signal and no mercy for its files.
func (d *daemon) kill() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill() // it may have ended
	_ = d.cmd.Wait()
	d.cmd = nil
}

// TestKillNineDuringCalls: of calls that run while the daemon is killed, the host goes on with each, once; the next daemon
// takes them over, and the ledger has an end for every one.
func TestKillNineDuringCalls(t *testing.T) {
	t.Parallel()
	const calls = 8
	home := bridgetest.SockDir(t)
	for _, dir := range []string{"run", "config/a2a-bridge"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d := &daemon{t: t, env: bridgetest.Env(home), addr: bridgetest.FreePort(t)}
	d.start()
	t.Cleanup(d.kill)
	b := &bridgetest.Bridge{URL: "http://" + d.addr + "/mcp", Home: home, Env: d.env}
	b.Paths.HostSocket = filepath.Join(home, "run/a2a-bridge/host.sock")
	b.Paths.Tokens = filepath.Join(home, "config/a2a-bridge/tokens.json")
	b.Paths.TokenUse = filepath.Join(home, "state/a2a-bridge/token-use.json")
	b.Control = control.NewClient(filepath.Join(home, "run/a2a-bridge/control.sock"))
	release := make(chan struct{})
	h := b.AttachScripted(t, bridgetest.HostOptions{Tools: []bridgetest.ScriptedTool{{Name: "slow", Tier: "write", Run: bridgetest.Block(release, "done")}}})
	secret := b.Token(t, auth.CreateOptions{Name: "laptop"})

	gone := make(chan error, calls)
	for range calls {
		go func() {
			req, err := http.NewRequest(http.MethodPost, b.URL, strings.NewReader(statelessBody("tools/call", `"name":"slow",`)))
			if err != nil {
				gone <- err
				return
			}
			for name, value := range map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/json", "Accept": "application/json",
				"Mcp-Protocol-Version": statelessRevision, "Mcp-Method": "tools/call", "Mcp-Name": "slow"} {
				req.Header.Set(name, value)
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
				err = errors.New("it was answered " + resp.Status)
			} else {
				err = nil // the connection went, as it must
			}
			gone <- err
		}()
	}
	bridgetest.Eventually(t, "all calls run", func() bool { return h.Runs("slow") == calls })
	d.kill()
	for range calls {
		if err := <-gone; err != nil {
			t.Error(err)
		}
	}
	d.start()
	h.WaitWelcome(t)
	close(release)
	var records []control.CallRecord
	bridgetest.Eventually(t, "every call has its end", func() bool {
		list, err := b.Control.Calls(t.Context(), 2*calls)
		if err != nil {
			return false
		}
		records = list.Calls
		for _, r := range records {
			if r.EndedAt == nil {
				return false
			}
		}
		return len(records) == calls
	})
	for _, r := range records {
		if r.State != string(bridge.Done) || r.Executed != bridge.ExecutedYes {
			t.Errorf("call %s is %s, executed %s, want done", r.ID, r.State, r.Executed)
		}
	}
	if n := h.Runs("slow"); n != calls {
		t.Errorf("%d calls ran %d times", calls, n)
	}
	h.Detach(t)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the stop: %v", err)
	}
	d.cmd = nil
}
