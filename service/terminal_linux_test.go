package service_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/probe"
)

// screen is a daemon in a terminal, and what it has written there.
type screen struct {
	cmd   *exec.Cmd
	paths config.Paths
	url   string
	ended chan error

	mu   sync.Mutex
	text strings.Builder
}

// inTerminal runs a2a-bridge serve as from a shell in a terminal.
func inTerminal(t *testing.T) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	home, addr := bridgetest.SockDir(t), bridgetest.FreePort(t)
	s := &screen{url: "http://" + addr + "/mcp", ended: make(chan error, 1)}
	env := bridgetest.Env(home)
	if err := os.MkdirAll(home+"/run", 0o700); err != nil {
		t.Fatal(err)
	}
	if s.paths, err = config.ResolvePaths(func(key string) string {
		for _, e := range env {
			if value, ok := strings.CutPrefix(e, key+"="); ok {
				return value
			}
		}
		return ""
	}, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(bridgetest.Binaries(t).Bridge, "serve", "--http-port", addr[strings.LastIndex(addr, ":")+1:])
	s.cmd.Env = env
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() {
		lines := bufio.NewReader(master)
		for {
			line, err := lines.ReadString('\n')
			s.mu.Lock()
			s.text.WriteString(strings.ReplaceAll(line, "\r\n", "\n"))
			s.mu.Unlock()
			if err != nil { // EIO, once nobody holds the other end
				s.ended <- s.cmd.Wait()
				return
			}
		}
	}()
	s.await(t, "ready  url=")
	return s
}

func (s *screen) shows() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	bridgetest.Eventually(t, "the terminal shows "+text, func() bool { return strings.Contains(s.shows(), text) })
}

func (s *screen) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// left waits for a clean end.
func (s *screen) left(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("it goes on; the terminal shows:\n%s", s.shows())
	}
}

func TestADaemonEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	s := inTerminal(t)
	s.signal(t, syscall.SIGHUP)
	s.left(t)
	if text := s.shows(); !strings.Contains(text, "stopping") || strings.Contains(text, "level=") || strings.Contains(text, "activated") {
		t.Errorf("the terminal shows:\n%s", text)
	}
}

func TestASecondInterruptStopsNow(t *testing.T) {
	t.Parallel()
	s := inTerminal(t)
	release := make(chan struct{})
	defer close(release)
	b := &bridgetest.Bridge{URL: s.url, Paths: s.paths}
	h := bridgetest.StartScripted(t, bridgetest.HostOptions{Dial: b.DialHost, Tools: []bridgetest.ScriptedTool{
		{Name: "slow", Tier: "exec", Run: bridgetest.Block(release, "too late")}}})
	c := probe.New(s.url, b.Token(t, auth.CreateOptions{Name: "laptop"}))
	defer c.Close()
	answered := make(chan string, 1)
	go func() {
		r, err := c.CallTool(t.Context(), "slow", json.RawMessage(`{}`), nil)
		answered <- fmt.Sprintf("%s %v", r.Text, err)
	}()
	bridgetest.Eventually(t, "the tool runs", func() bool { return h.Runs("slow") == 1 })
	s.signal(t, os.Interrupt)
	s.await(t, `stopping: 1 call still runs; waiting for it up to 5 s. Ctrl-C again stops now (its caller is told "may have run")`)
	s.signal(t, os.Interrupt)
	s.left(t)
	if got := <-answered; !strings.Contains(got, "May have run") {
		t.Errorf("the caller is told %s", got)
	}
	if text := s.shows(); !strings.Contains(text, "stopping now") || strings.Contains(text, "closed network connection") {
		t.Errorf("the terminal shows:\n%s", text)
	}
}
