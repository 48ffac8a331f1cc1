package service_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// manager is as much of systemd as the daemon sees: three sockets that stay
// open, and a socket for its messages.
type manager struct {
	addr   string
	home   string
	files  []*os.File
	notify *net.UnixConn

	mu   sync.Mutex
	said []string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{home: bridgetest.SockDir(t)}
	run := filepath.Join(m.home, "run/a2a-bridge")
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	keep := func(l net.Listener, err error) net.Listener {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		m.files = append(m.files, f)
		return l
	}
	m.addr = keep(net.Listen("tcp", "127.0.0.1:0")).Addr().String()
	keep(net.Listen("unix", filepath.Join(run, "host.sock")))
	keep(net.Listen("unix", filepath.Join(run, "control.sock")))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(m.home, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m.notify = conn
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(buf[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *manager) heard(message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.said {
		if strings.Contains(s, message) {
			return true
		}
	}
	return false
}

// start runs the real program with the sockets; sh gives it the pid that
// LISTEN_PID must name.
func (m *manager) start(t *testing.T, args string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "LISTEN_PID=$$ exec a2a-bridge serve "+args)
	cmd.Env = append(append(bridgetest.Env(m.home), "LISTEN_FDS=3", "LISTEN_FDNAMES=http:host:control",
		"NOTIFY_SOCKET="+filepath.Join(m.home, "notify"), "PATH="+bridgetest.Binaries(t).Dir+":/usr/bin:/bin"), env...)
	cmd.ExtraFiles = m.files
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

func TestUnderAServiceManagerTheSocketsOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	c := control.NewClient(filepath.Join(m.home, "run/a2a-bridge/control.sock"))
	for life := range 2 {
		cmd := m.start(t, "", fmt.Sprintf("WATCHDOG_USEC=%d", 200*time.Millisecond/time.Microsecond))
		s, err := c.Status(t.Context()) // waits in the backlog until somebody accepts
		if err != nil || *s.Daemon.Activation != "systemd" || s.HTTP.Addr != m.addr || s.State != control.StateReady {
			t.Fatalf("life %d: status = %+v, %v", life, s, err)
		}
		if s.Daemon.LastStop == nil != (life == 0) {
			t.Errorf("life %d: the last stop is %v", life, s.Daemon.LastStop)
		}
		for _, message := range []string{"READY=1", "STATUS=no omp session", "WATCHDOG=1"} {
			bridgetest.Eventually(t, message, func() bool { return m.heard(message) })
		}
		bridgetest.Eventually(t, "the idle clock runs by default", func() bool {
			s, err := c.Status(t.Context())
			return err == nil && s.Daemon.IdleExitAt != nil && time.Until(*s.Daemon.IdleExitAt) > 9*time.Minute
		})
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		bridgetest.Eventually(t, "RELOADING=1", func() bool { return m.heard("RELOADING=1\nMONOTONIC_USEC=") })
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("life %d: the daemon ended with %v", life, err)
		}
		if !m.heard("STOPPING=1") {
			t.Error("the manager was not told of the stop")
		}
		if _, err := os.Stat(filepath.Join(m.home, "run/a2a-bridge/host.sock")); err != nil {
			t.Errorf("the socket is gone with the daemon: %v", err)
		}
	}
}

// Requests keep coming while daemons go and come: each gets its answer.
func TestARestartLosesNoRequest(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	cmd := m.start(t, "")
	const clients, lives = 4, 8 // of each kind
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g sync.WaitGroup
	var mu sync.Mutex
	answers := 0
	// A connection for each request: a kept one may always be closed by the other side.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	asked := control.NewClient(filepath.Join(m.home, "run/a2a-bridge/control.sock"))
	for door, ask := range map[string]func() error{
		"http": func() error {
			resp, err := client.Get("http://" + m.addr + "/healthz")
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		},
		"control": func() error {
			_, err := asked.Paths(t.Context())
			return err
		},
	} {
		for range clients {
			g.Go(func() {
				for ctx.Err() == nil {
					if err := ask(); err != nil {
						t.Errorf("a request was lost at the door %s: %v", door, err)
						return
					}
					mu.Lock()
					answers++
					mu.Unlock()
				}
			})
		}
	}
	for range lives {
		mu.Lock()
		seen := answers
		mu.Unlock()
		bridgetest.Eventually(t, "more answers", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return answers > seen+20
		})
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
		cmd = m.start(t, "")
	}
	cancel()
	g.Wait()
}
