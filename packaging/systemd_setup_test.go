package packaging_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/probe"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// wanted are the lines of a setup; what differs each time stands for itself.
const wanted = `ok    socket     a2a-bridge.socket enabled, listening on ADDR
ok    daemon     VERSION answered in TIME
ok    omp        18.1.16, bridge extension installed
todo  omp        start omp, or restart a running one: it loads extensions at start
warn  linger     off: the bridge sleeps when your last login here ends
                 fix: loginctl enable-linger      (if refused: sudo loginctl enable-linger $USER)
next  connect another machine:  a2actl print-remote-config laptop
`

var answeredIn = regexp.MustCompile(`daemon     \S+( \S+)? answered in [\d.]+ m?s\n`)

func (p *person) wantSetup(out, want string) {
	p.t.Helper()
	out = answeredIn.ReplaceAllString(out, "daemon     VERSION answered in TIME\n")
	if diff := cmp.Diff(strings.ReplaceAll(want, "ADDR", p.addr()), out); diff != "" {
		p.t.Errorf("setup (-want +got):\n%s", diff)
	}
}

func setupToUninstall(t *testing.T, p *person) {
	p.write(".bun/bin/omp", "#!/bin/sh\necho 18.1.16\n")
	if err := os.Chmod(filepath.Join(p.home, ".bun/bin/omp"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := p.tree("")
	plan := p.setup("--dry-run")
	for _, part := range append(slices.Clone(sockets), packaging.Service, packaging.Sandbox, packaging.PortDropIn,
		"systemctl --user daemon-reload", "systemctl --user enable --now a2a-bridge.socket", ".omp/agent/extensions/a2a-bridge") {
		if !strings.Contains(plan, part+"\n") && !strings.Contains(plan, part+" (") {
			t.Errorf("the plan does not name %s:\n%s", part, plan)
		}
	}
	if diff := cmp.Diff(before, p.tree("")); diff != "" {
		t.Errorf("a dry run changes (-before +after):\n%s", diff)
	}

	p.wantSetup(p.setup(), wanted)
	settled := p.tree(".config/systemd", ".omp")
	second := strings.Replace(wanted, "todo  omp        start omp, or restart a running one: it loads extensions at start\n", "", 1)
	pid := p.pid()
	p.wantSetup(p.setup(), second)
	p.wantSetup(p.ctl("setup"), second) // the port stays without being named
	if diff := cmp.Diff(settled, p.tree(".config/systemd", ".omp")); diff != "" || p.pid() != pid {
		t.Errorf("a second setup is not idle: pid %d, then %d (-before +after):\n%s", pid, p.pid(), diff)
	}
	var report struct {
		Changes []string
		OK      bool
	}
	if err := json.Unmarshal([]byte(p.ctl("setup", "--json")), &report); err != nil || len(report.Changes) > 0 || !report.OK {
		t.Errorf("setup --json = %+v, %v", report, err)
	}

	p.remoteCall()
	p.ctl("service", "uninstall")
	// What is the person's own stays: settings, tokens and the audit.
	own := append(p.tree(".config/a2a-bridge", ".local/state/a2a-bridge"), ".config", ".local", ".local/state")
	for _, must := range []string{".config/a2a-bridge/tokens.json", ".local/state/a2a-bridge/audit.jsonl"} {
		if !slices.Contains(own, must) {
			t.Errorf("%s is gone", must)
		}
	}
	want := slices.Compact(slices.Sorted(slices.Values(append(own, before...))))
	if diff := cmp.Diff(want, p.tree("")); diff != "" {
		t.Errorf("uninstall leaves (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "a2a-bridge")); !os.IsNotExist(err) {
		t.Errorf("the directory of the sockets is still there: %v", err)
	}
	for _, u := range append([]string{packaging.Service}, sockets...) {
		if got := p.show(u, "LoadState"); got != "not-found" {
			t.Errorf("%s is %s for systemd", u, got)
		}
	}
	if out := p.ctl("service", "uninstall"); out != "Nothing of a2actl's is installed here.\n" {
		t.Errorf("a second uninstall says %q", out)
	}
}

// remoteCall goes the whole way: token, status, a call, its trace.
func (p *person) remoteCall() {
	p.t.Helper()
	secret, _, _ := strings.Cut(p.ctl("token", "create", "laptop", "-q"), "\n")
	var d net.Dialer
	h := bridgetest.StartScripted(p.t, bridgetest.HostOptions{
		Tools: []bridgetest.ScriptedTool{{Name: "bash"}},
		Dial: func(ctx context.Context) (net.Conn, error) {
			return d.DialContext(ctx, "unix", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "a2a-bridge/host.sock"))
		}})
	h.WaitWelcome(p.t)
	bridgetest.Eventually(p.t, "status shows the host", func() bool {
		return strings.Contains(p.ctl("status"), "app   main   idle")
	})
	if out := p.ctl("setup"); !strings.Contains(out, "ok    omp        18.1.16, bridge extension installed, attached: \"app\"\n") {
		p.t.Errorf("setup does not see the host:\n%s", out)
	}
	client := probe.New("http://"+p.addr()+"/mcp", secret)
	defer client.Close()
	got, err := client.CallTool(p.t.Context(), "bash", json.RawMessage(`{"command":"hostname"}`), nil)
	if err != nil || !strings.Contains(string(got.Raw), "hostname") || h.Runs("bash") != 1 {
		p.t.Errorf("the call gives %s, %v, and ran %d times", got.Raw, err, h.Runs("bash"))
	}
	if out := p.ctl("calls"); !strings.Contains(out, "laptop") || !strings.Contains(out, "bash") {
		p.t.Errorf("calls does not show it:\n%s", out)
	}
	h.Detach(p.t)
}

// Units of a package may lie in any directory that is not the user's own.
func packagedUnitsAreOnlySwitchedOn(t *testing.T, p *person) {
	const dir = ".local/share/systemd/user"
	for _, u := range packaging.Units(filepath.Join(p.bin, "a2a-bridge")) {
		p.write(dir+"/"+u.Name, strings.ReplaceAll(u.Text, fmt.Sprintf("%s:%d", packaging.Host, packaging.Port), p.addr()))
	}
	packaged := p.tree(dir)
	p.systemctl("daemon-reload")
	p.systemctl("enable", "--now", packaging.HTTPSocket) // all that a user needs to type
	p.wantActive("active", sockets...)
	p.wantHealth(http.StatusOK)
	enabled := p.tree(".config/systemd")

	p.ctl("service", "install")
	p.ctl("setup")
	if diff := cmp.Diff(enabled, p.tree(".config/systemd")); diff != "" {
		t.Errorf("install writes units beside the package's (-before +after):\n%s", diff)
	}
	moved, err := strconv.Atoi(bridgetest.FreePort(t)[len("127.0.0.1:"):])
	if err != nil {
		t.Fatal(err)
	}
	p.port = moved
	p.setup()
	p.wantHealth(http.StatusOK)
	p.ctl("service", "uninstall")
	if diff := cmp.Diff(packaged, p.tree(dir)); diff != "" {
		t.Errorf("uninstall touches the package (-before +after):\n%s", diff)
	}
	if left := p.tree(".config/systemd"); len(left) > 0 {
		t.Errorf("uninstall leaves %v", left)
	}
	for _, s := range sockets {
		if got := p.show(s, "UnitFileState"); got != "disabled" {
			t.Errorf("%s is %s", s, got)
		}
	}
	p.ctl("service", "install") // and on again
	p.wantActive("active", sockets...)
	if _, err := os.Lstat(filepath.Join(p.units(), packaging.HTTPSocket)); !os.IsNotExist(err) {
		t.Errorf("install wrote a unit: %v", err)
	}
}

func foreignFilesStay(t *testing.T, p *person) {
	ctl := filepath.Join(p.bin, "a2actl")
	const mine = ".config/systemd/user/" + packaging.Service
	p.write(mine, "[Service]\nExecStart=/bin/true\n")
	before := p.tree(".config/systemd")
	if out, code := p.run(ctl, "service", "install"); code != 4 || !strings.Contains(out, "was not written by a2actl") {
		t.Errorf("install over somebody's unit ends with %d: %s", code, out)
	}
	if out, code := p.run(ctl, "setup"); code != 1 || !strings.HasPrefix(out, "FAIL  socket     ") {
		t.Errorf("setup over somebody's unit ends with %d: %s", code, out)
	}
	p.ctl("service", "uninstall")
	if diff := cmp.Diff(before, p.tree(".config/systemd")); diff != "" {
		t.Errorf("somebody's unit is touched (-before +after):\n%s", diff)
	}
	if err := os.Remove(filepath.Join(p.home, mine)); err != nil {
		t.Fatal(err)
	}

	p.systemctl("mask", packaging.HTTPSocket)
	if out, code := p.run(ctl, "service", "install"); code != 4 || !strings.Contains(out, "try: systemctl --user unmask "+packaging.HTTPSocket) {
		t.Errorf("install of a masked unit ends with %d: %s", code, out)
	}
	p.systemctl("unmask", packaging.HTTPSocket)

	p.setup()
	p.dropIn(packaging.Service, "[Service]\nNice=1\n")
	p.ctl("service", "uninstall")
	want := []string{".config/systemd", ".config/systemd/user", mine + ".d", mine + ".d/90-own.conf"}
	if diff := cmp.Diff(want, p.tree(".config/systemd")); diff != "" {
		t.Errorf("uninstall leaves (-want +got):\n%s", diff)
	}
}

func takenPort(t *testing.T, p *person) {
	ctl := filepath.Join(p.bin, "a2actl")
	l, err := net.Listen("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	before := p.tree("")
	if os.Getenv("USERD_MODE") == "root" { // then the outer run is another user
		foreign := os.Getenv(foreignVariable)
		out, code := p.run(ctl, "setup", "--port", foreign)
		want := "FAIL  socket     127.0.0.1:" + foreign + " is held by a process of another user (uid 0)\n" +
			"                 fix: on a shared machine:  a2actl setup --port auto\n"
		if diff := cmp.Diff(want, out); code != 1 || diff != "" {
			t.Errorf("setup ends with %d (-want +got):\n%s", code, diff)
		}
	}
	out, code := p.run(ctl, "setup", "--port", strconv.Itoa(p.port))
	want := fmt.Sprintf(`FAIL  socket     %s is held by packaging.test \(pid %d, yours\): \S.*
                 fix: stop it, then  a2actl setup --port %d
                 or use another port:  a2actl setup --port %d   \(existing peers need the new URL\)
`, regexp.QuoteMeta(p.addr()), os.Getpid(), p.port, p.port+1)
	if code != 1 || !regexp.MustCompile("^"+want+"$").MatchString(out) {
		t.Errorf("setup ends with %d: %s", code, out)
	}
	if diff := cmp.Diff(before, p.tree("")); diff != "" {
		t.Errorf("and changes (-before +after):\n%s", diff)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	// Taken while the bridge was away: the other sockets work, and say why.
	p.setup()
	p.ctl("service", "stop")
	if l, err = net.Listen("tcp", p.addr()); err != nil {
		t.Fatal(err)
	}
	p.systemctl("start", packaging.Service)
	p.wantActive("failed", packaging.HTTPSocket)
	s, err := p.control.Status(t.Context())
	if err != nil || s.HTTP.Listening || len(s.Problems) == 0 {
		t.Errorf("status = %+v, %v", s, err)
	}
	if out, code := p.run(ctl, "service", "start"); code != 1 || !strings.Contains(out, p.addr()+" is held by packaging.test (pid ") || !strings.Contains(out, "try: stop it, then  a2actl service start") {
		t.Errorf("start ends with %d: %s", code, out)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p.ctl("service", "restart")
	p.wantHealth(http.StatusOK)
}

func automaticPort(t *testing.T, p *person) {
	usual := net.JoinHostPort(packaging.Host, strconv.Itoa(packaging.Port))
	l, _ := net.Listen("tcp", usual) // if that fails, somebody else has it, which is as good
	p.ctl("setup", "--port", "auto")
	s, statusErr := p.control.Status(t.Context())
	if statusErr != nil || s.HTTP.Addr == usual {
		t.Fatalf("the port is %s, %v", s.HTTP.Addr, statusErr)
	}
	port, err := strconv.Atoi(strings.TrimPrefix(s.HTTP.Addr, packaging.Host+":"))
	if err != nil {
		t.Fatal(err)
	}
	p.port = port
	p.wantHealth(http.StatusOK)
	if l != nil {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p.ctl("setup", "--port", "auto") // the usual one is free again, but peers know this one
	p.wantHealth(http.StatusOK)
	if l == nil {
		return
	}
	p.ctl("setup", "--port", strconv.Itoa(packaging.Port))
	p.port = packaging.Port
	p.wantHealth(http.StatusOK)
	if _, err := os.Stat(filepath.Join(p.units(), packaging.PortDropIn)); !os.IsNotExist(err) {
		t.Errorf("the usual port needs no drop-in: %v", err)
	}
}

// A drop-in of the user's own that sorts later holds the port where it is.
func portMoveIsUndone(t *testing.T, p *person) {
	p.setup()
	p.dropIn(packaging.HTTPSocket, "[Socket]\nListenStream=\nListenStream="+p.addr()+"\n")
	before, err := os.ReadFile(filepath.Join(p.units(), packaging.PortDropIn))
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := net.SplitHostPort(bridgetest.FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	out, code := p.run(filepath.Join(p.bin, "a2actl"), "setup", "--port", other)
	if code != 1 || !strings.Contains(out, "another file decides on the port") || !strings.Contains(out, fmt.Sprintf("the port is %d again", p.port)) {
		t.Errorf("setup ends with %d: %s", code, out)
	}
	after, err := os.ReadFile(filepath.Join(p.units(), packaging.PortDropIn))
	if diff := cmp.Diff(string(before), string(after)); err != nil || diff != "" {
		t.Errorf("%v (-before +after):\n%s", err, diff)
	}
	p.wantHealth(http.StatusOK)
}
