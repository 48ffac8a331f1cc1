package bridgetest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/service"
)

// Limits of a bridge in a test.
const (
	startTime = 20 * time.Second // with seven other test processes on two cores
	stopTime  = 20 * time.Second
	pollTime  = 5 * time.Millisecond
)

// Options describe a bridge to start.
type Options struct {
	Config string   // text of config.yaml; empty: no file
	Env    []string // besides HOME and the XDG directories
	Home   string   // empty: a fresh one
	Addr   string   // where HTTP listens; empty: any free port
	Log    *slog.Logger
}

// Bridge is the whole daemon, in this process, on real sockets in directories
// of its own.
type Bridge struct {
	URL     string   // of MCP
	Home    string   // config, state and run are below it
	Env     []string // for programs that should find this bridge
	Paths   config.Paths
	Control *control.Client

	options Options
	mu      sync.Mutex
	cancel  context.CancelFunc
	done    chan error
}

// Start runs a bridge until the test ends.
func Start(t testing.TB, o Options) *Bridge {
	t.Helper()
	if o.Home == "" {
		o.Home = SockDir(t)
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Bridge{Home: o.Home, Env: append(Env(o.Home), o.Env...), options: o}
	for _, dir := range []string{"run", "config/a2a-bridge"} {
		if err := os.MkdirAll(filepath.Join(o.Home, dir), 0o700); err != nil {
			t.Fatalf("make the bridge's home: %v", err)
		}
	}
	if o.Config != "" {
		b.WriteConfig(t, o.Config)
	}
	b.start(t)
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("the bridge ended with %v", err)
		}
	})
	return b
}

// Env is the environment of a user whose home is the directory: no other
// variable of this process leads to a bridge.
func Env(home string) []string {
	return []string{
		"HOME=" + home,
		"PATH=" + os.Getenv("PATH"),
		"XDG_CONFIG_HOME=" + filepath.Join(home, "config"),
		"XDG_STATE_HOME=" + filepath.Join(home, "state"),
		"XDG_RUNTIME_DIR=" + filepath.Join(home, "run"),
	}
}

func (b *Bridge) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan service.Running, 1)
	done := make(chan error, 1)
	go func() {
		done <- service.Run(ctx, service.Config{Env: b.Env, HTTPAddr: b.options.Addr, Log: b.options.Log,
			Ready: func(r service.Running) { ready <- r }})
	}()
	select {
	case r := <-ready:
		b.URL, b.Paths = r.URL, r.Paths
		// A restart comes back at the same address.
		b.options.Addr = strings.TrimSuffix(strings.TrimPrefix(r.URL, "http://"), "/mcp")
	case err := <-done:
		cancel()
		t.Fatalf("the bridge did not start: %v", err)
	case <-time.After(startTime):
		cancel()
		t.Fatal("the bridge did not start in time")
	}
	b.Control = control.NewClient(b.Paths.ControlSocket)
	b.mu.Lock()
	b.cancel, b.done = cancel, done
	b.mu.Unlock()
}

// stop ends the daemon as a signal would and returns its error.
func (b *Bridge) stop() error {
	b.mu.Lock()
	cancel, done := b.cancel, b.done
	b.cancel, b.done = nil, nil
	b.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case err := <-done:
		return err
	case <-time.After(stopTime):
		return fmt.Errorf("it did not stop in %s", stopTime)
	}
}

// Stop ends the daemon; hosts and clients stay.
func (b *Bridge) Stop(t testing.TB) {
	t.Helper()
	if err := b.stop(); err != nil {
		t.Fatalf("stop the bridge: %v", err)
	}
}

// Restart stops the daemon, if it runs, and starts it again at the same
// address with the same files.
func (b *Bridge) Restart(t testing.TB) {
	t.Helper()
	b.Stop(t)
	b.start(t)
}

// WriteConfig replaces config.yaml; Reload or Restart make it count.
func (b *Bridge) WriteConfig(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.Home, "config/a2a-bridge/config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatalf("write the configuration: %v", err)
	}
}

// Tokens opens the bridge's tokens as a2actl does.
func (b *Bridge) Tokens() *auth.Store { return auth.Open(b.Paths.Tokens, b.Paths.TokenUse, time.Now) }

// Token mints a token and returns its secret.
func (b *Bridge) Token(t testing.TB, o auth.CreateOptions) string {
	t.Helper()
	secret, _, err := b.Tokens().Create(o)
	if err != nil {
		t.Fatalf("mint the token %q: %v", o.Name, err)
	}
	return secret.Reveal()
}

// DialHost connects to the host socket.
func (b *Bridge) DialHost(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", b.Paths.HostSocket)
}

// Status asks the daemon for its status.
func (b *Bridge) Status(t testing.TB) control.Status {
	t.Helper()
	s, err := b.Control.Status(t.Context())
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	return s
}

// WaitStatus polls the status until it is as wanted.
func (b *Bridge) WaitStatus(t testing.TB, what string, ok func(control.Status) bool) control.Status {
	t.Helper()
	var last control.Status
	Eventually(t, what, func() bool {
		last = b.Status(t)
		return ok(last)
	})
	return last
}

// Eventually polls until the condition holds, and fails the test if it does
// not in time.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(startTime)
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come about in %s: %s", startTime, what)
		}
		<-tick.C
	}
}

// FreePort is a loopback address that nobody listened on just now.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
