package packaging_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// dialHost is how hosts find the bridge.
func (p *person) dialHost(name string) *bridgetest.ScriptedHost {
	p.t.Helper()
	var d net.Dialer
	return bridgetest.StartScripted(p.t, bridgetest.HostOptions{Name: name, Dial: func(ctx context.Context) (net.Conn, error) {
		return d.DialContext(ctx, "unix", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "a2a-bridge/host.sock"))
	}})
}

// sleepNow stops the daemon and leaves its sockets open.
func (p *person) sleepNow() {
	p.t.Helper()
	p.systemctl("stop", packaging.Service)
	p.wantActive("inactive", packaging.Service)
	p.wantActive("active", sockets...)
}

func eachSocketStartsTheDaemon(t *testing.T, p *person) {
	p.setup()
	doors := map[string]func(){
		"http": func() { p.wantHealth(http.StatusOK) },
		"control": func() {
			s, err := p.control.Status(t.Context())
			if err != nil || s.Daemon.Activation == nil || *s.Daemon.Activation != "systemd" || s.HTTP.Addr != p.addr() || len(s.Problems) > 0 {
				t.Errorf("status = %+v, %v", s, err)
			}
		},
		"host": func() {
			h := p.dialHost("app")
			if w := h.WaitWelcome(t); w.Name != "app" {
				t.Errorf("the host is welcomed as %q", w.Name)
			}
			h.Detach(t)
		},
	}
	for door, knock := range doors {
		p.sleepNow()
		start := time.Now()
		knock()
		t.Logf("%s: first answer after %s", door, time.Since(start))
		p.wantActive("active", packaging.Service)
	}
	if status := p.show(packaging.Service, "StatusText"); !strings.Contains(status, p.addr()) {
		bridgetest.Eventually(t, "the status line of systemctl", func() bool {
			return strings.Contains(p.show(packaging.Service, "StatusText"), p.addr())
		})
	}
	for _, s := range []string{"host.sock", "control.sock"} {
		info, err := os.Stat(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "a2a-bridge", s))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", s, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "a2a-bridge")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("their directory: %v, %v", info, err)
	}
}

func killedDaemon(t *testing.T, p *person) {
	p.setup()
	for range 3 {
		if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		p.wantHealth(http.StatusOK)
		t.Logf("the next client waits %s", time.Since(start)) // RestartSec and a start: 1.2 s on an idle machine
	}
	if got := p.show(packaging.Service, "NRestarts"); got != "3" {
		t.Errorf("systemd counts %s restarts", got)
	}
}

// A process that is stopped stands for one that hangs: it answers nobody and
// does not feed the watchdog.
func frozenDaemon(t *testing.T, p *person) {
	p.setup()
	p.dropIn(packaging.Service, "[Service]\nWatchdogSec=2\nTimeoutAbortSec=2\n")
	p.systemctl("restart", packaging.Service)
	frozen := p.pid()
	if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	bridgetest.Eventually(t, "the kernel stops all of it", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", frozen))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	p.wantHealth(http.StatusOK) // by the next one
	if now := p.pid(); now == frozen {
		t.Error("the frozen daemon was not replaced")
	}
	if out, _ := p.run("journalctl", "--user", "--no-pager", "-u", packaging.Service); !strings.Contains(out, "Watchdog timeout") {
		t.Errorf("the watchdog did not do it:\n%s", out)
	}
}

func stopBySocket(t *testing.T, p *person) {
	p.setup()
	all := append([]string{packaging.Service}, sockets...)
	for name, stop := range map[string]func(){
		"systemctl": func() { p.systemctl("stop", packaging.HTTPSocket) },
		"a2actl":    func() { p.ctl("service", "stop") },
	} {
		p.wantHealth(http.StatusOK)
		stop()
		bridgetest.Eventually(t, "the service ends with its sockets", func() bool { return p.show(packaging.Service, "ActiveState") == "inactive" })
		p.wantActive("inactive", all...)
		if _, err := p.health(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: after the stop the port gives %v", name, err)
		}
		if files, err := os.ReadDir(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "a2a-bridge")); err != nil || len(files) > 0 {
			t.Errorf("%s: the directory of the sockets holds %v, %v", name, files, err)
		}
		if out, code := p.run(filepath.Join(p.bin, "a2actl"), "status"); code != 3 || !strings.Contains(out, "is enabled, not started\n        fix: systemctl --user start "+packaging.HTTPSocket) || !strings.Contains(out, p.addr()) {
			t.Errorf("%s: status ends with %d: %s", name, code, out)
		}
		p.ctl("service", "start")
		p.wantActive("active", all...)
	}
	before := p.pid()
	p.ctl("service", "restart")
	if after := p.pid(); after == before {
		t.Error("restart keeps the process")
	}
}

func brokenConfiguration(t *testing.T, p *person) {
	p.setup()
	const file = ".config/a2a-bridge/config.yaml"
	for name, start := range map[string]func(){
		"by a restart":    func() { p.systemctl("restart", packaging.Service) },
		"by a connection": p.sleepNow,
	} {
		p.write(file, "http:\n  prot: 1\n")
		start()
		p.wantHealth(http.StatusServiceUnavailable)
		out, code := p.run(filepath.Join(p.bin, "a2actl"), "setup")
		if code != 1 || !strings.Contains(out, "FAIL  config     config.yaml: line 2: http.prot") {
			t.Errorf("%s: setup ends with %d: %s", name, code, out)
		}
		broken := p.pid()
		p.write(file, "")
		p.systemctl("reload", packaging.Service)
		p.wantHealth(http.StatusOK)
		if now := p.pid(); now != broken {
			t.Errorf("%s: the daemon ended in between", name)
		}
	}
	if got := p.show(packaging.Service, "NRestarts"); got != "0" {
		t.Errorf("systemd counts %s restarts", got)
	}
}

func missingProgram(t *testing.T, p *person) {
	p.setup()
	p.sleepNow()
	program := filepath.Join(p.bin, "a2a-bridge")
	if err := os.Rename(program, program+".away"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		code, err := p.health()
		if err == nil && code != http.StatusOK {
			err = errors.New(http.StatusText(code))
		}
		answered <- err
	}()
	bridgetest.Eventually(t, "three attempts", func() bool { return p.show(packaging.Service, "NRestarts") >= "3" })
	if out, code := p.run(filepath.Join(p.bin, "a2actl"), "service", "start"); code != 1 || !strings.Contains(out, "cannot start its program") {
		t.Errorf("start ends with %d: %s", code, out)
	}
	select {
	case err := <-answered:
		t.Fatalf("the client did not wait: %v", err)
	default:
	}
	if err := os.Rename(program+".away", program); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the client that waited gets %v", err)
	}
}
