package packaging_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// through is a path as the process sees it.
func through(pid int, path string) string { return fmt.Sprintf("/proc/%d/root%s", pid, path) }

// writable tries to make a file where the process would make it.
func writable(pid int, dir string) error {
	file := filepath.Join(dir, "written-by-a-test")
	if err := os.WriteFile(through(pid, file), nil, 0o600); err != nil {
		return err
	}
	return os.Remove(through(pid, file))
}

// wholeMap is the uid map of a process without a user namespace of its own.
func wholeMap(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) == string(own)
}

func sandboxInForce(t *testing.T, p *person) {
	// Lines count for the score of `security` even where they do nothing, so look at what they do.
	p.setup()
	p.wantHealth(http.StatusOK)
	pid := p.pid()
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	for dir, want := range map[string]error{
		p.home:                           syscall.EROFS,
		filepath.Join(p.home, ".config"): syscall.EROFS,
		filepath.Join(p.home, ".config/systemd/user"):    syscall.EROFS,
		filepath.Join(p.home, ".local/state"):            syscall.EROFS,
		runtime:                                          syscall.EROFS,
		filepath.Join(p.home, ".config/a2a-bridge"):      nil,
		filepath.Join(p.home, ".local/state/a2a-bridge"): nil,
		filepath.Join(runtime, "a2a-bridge"):             nil,
	} {
		if err := writable(pid, dir); !errors.Is(err, want) {
			t.Errorf("writing into %s gives %v, want %v", dir, err, want)
		}
	}
	if wholeMap(t, pid) {
		t.Error("the daemon has no user namespace")
	}
	if err := os.WriteFile("/tmp/seen-from-outside", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove("/tmp/seen-from-outside")
	if _, err := os.Stat(through(pid, "/tmp/seen-from-outside")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the daemon sees /tmp: %v", err)
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1\n") || !strings.Contains(string(status), "Seccomp:\t2\n") {
		t.Errorf("no filter is in force: %v\n%s", err, status)
	}
	if s, err := p.control.Status(t.Context()); err != nil || len(s.Problems) > 0 {
		t.Errorf("in the sandbox the daemon has problems: %+v, %v", s.Problems, err)
	}
	if out, code := p.run("systemd-analyze", "--user", "--no-pager", "security", "--threshold=20", packaging.Service); code != 0 {
		t.Errorf("its exposure is more than 2.0:\n%s", out)
	}

	// The way that the file itself names.
	mask := filepath.Join(p.units(), packaging.Sandbox)
	if out, code := p.run("ln", "-sf", "/dev/null", mask); code != 0 {
		t.Fatal(out)
	}
	p.systemctl("daemon-reload")
	p.systemctl("restart", packaging.Service)
	p.wantHealth(http.StatusOK)
	if !wholeMap(t, p.pid()) {
		t.Error("the mask has no effect")
	}
	if err := writable(p.pid(), p.home); err != nil {
		t.Errorf("without the sandbox the home cannot be written: %v", err)
	}
	p.setup()
	if target, err := os.Readlink(mask); err != nil || target != "/dev/null" {
		t.Errorf("setup takes the mask away: %q, %v", target, err)
	}
	p.ctl("service", "uninstall")
	if target, err := os.Readlink(mask); err != nil || target != "/dev/null" {
		t.Errorf("uninstall takes the mask away: %q, %v", target, err)
	}
}
