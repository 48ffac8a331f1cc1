package packaging_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// scenarios are run by this test binary once more, as an ordinary user with a
// service manager of its own and an empty home.
var scenarios = []struct {
	name string
	run  func(*testing.T, *person)
}{
	{"each socket starts the daemon", eachSocketStartsTheDaemon},
	{"units of a package are only switched on", packagedUnitsAreOnlySwitchedOn},
	{"setup, a remote call, and uninstall leaves nothing", setupToUninstall},
	{"what is somebody's own stays", foreignFilesStay},
	{"a port that is taken changes nothing", takenPort},
	{"an automatic port is free, and stays", automaticPort},
	{"a move of the port that fails is undone", portMoveIsUndone},
	{"restarts and upgrades under load lose nothing", restartsUnderLoad},
	{"idle exits under load lose nothing", idleExitsUnderLoad},
	{"a killed daemon is back for the next client", killedDaemon},
	{"a frozen daemon is replaced", frozenDaemon},
	{"stopping the socket stops everything", stopBySocket},
	{"a broken configuration heals without reset-failed", brokenConfiguration},
	{"a program that is missing for a moment only delays", missingProgram},
	{"the sandbox is in force, and can be masked", sandboxInForce},
}

// The variables by which the inner run knows its part.
const (
	insideVariable   = "A2A_USERD_INSIDE"
	programsVariable = "A2A_USERD_PROGRAMS"
	foreignVariable  = "A2A_USERD_FOREIGN" // a port that the outer run listens on
)

// scenarioTime bounds one scenario on a busy machine.
const scenarioTime = 150 * time.Second

func TestUnderARealUserManager(t *testing.T) {
	t.Parallel()
	inside := os.Getenv(insideVariable) != ""
	if !inside {
		script := filepath.Join(bridgetest.ModuleRoot(t), "packaging/test/userd.sh")
		mode, err := exec.Command(script, "-n").CombinedOutput()
		bridgetest.Require(t, err == nil && !strings.HasPrefix(string(mode), "none"), "no user manager can be had: "+strings.TrimSpace(string(mode)))
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if inside {
				s.run(t, newPerson(t))
				return
			}
			t.Parallel()
			runInside(t)
		})
	}
}

// cannot is userd.sh's exit code where no user manager can be had after all.
const cannot = 77

// runInside runs the same subtest in a user manager.
func runInside(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := bridgetest.Binaries(t)
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	_, port, err := net.SplitHostPort(foreign.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scenarioTime+time.Minute)
	defer cancel()
	parent, name, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(ctx, filepath.Join(bridgetest.ModuleRoot(t), "packaging/test/userd.sh"),
		"-j", "-t", strconv.Itoa(int(scenarioTime.Seconds())), "-c", self, "-c", programs.Dir, "-e", insideVariable, "-e", programsVariable, "-e", foreignVariable, "--",
		"sh", "-c", `cd && exec "$HOME/$0" -test.v -test.run "$1" -test.timeout "$2"`,
		filepath.Base(self), "^"+parent+"$/^"+name+"$", scenarioTime.String())
	cmd.Env = append(os.Environ(), insideVariable+"=1", programsVariable+"="+filepath.Base(programs.Dir), foreignVariable+"="+port)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // its own clean-up needs root's rights and a moment
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == cannot {
		bridgetest.Require(t, false, "no user manager can be had: "+string(out))
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" (") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// person is a user on a machine with systemd who has unpacked our programs.
type person struct {
	home    string
	bin     string // with blanks and a percent sign: units must cope
	port    int
	client  *http.Client
	control *control.Client
	t       *testing.T
}

func newPerson(t *testing.T) *person {
	t.Helper()
	home := os.Getenv("HOME")
	p := &person{t: t, home: home, bin: filepath.Join(home, "my 100% own; bin"),
		// A connection for each request: a kept one may always be closed by the other side.
		client:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 40 * time.Second},
		control: control.NewClient(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "a2a-bridge/control.sock"))}
	if err := os.Rename(filepath.Join(home, os.Getenv(programsVariable)), p.bin); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(bridgetest.FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	if p.port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, cmd := range [][]string{{"systemctl", "--user", "--no-pager", "status", "a2a-bridge*"}, {"journalctl", "--user", "--no-pager", "-n", "60"}} {
				out, _ := exec.Command(cmd[0], cmd[1:]...).CombinedOutput()
				t.Logf("%s:\n%s", strings.Join(cmd, " "), out)
			}
		}
	})
	return p
}

// run gives what a program says, both streams, and its exit code.
func (p *person) run(name string, args ...string) (string, int) {
	p.t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// ctl runs a2actl, which must end well.
func (p *person) ctl(args ...string) string {
	p.t.Helper()
	out, code := p.run(filepath.Join(p.bin, "a2actl"), args...)
	if code != 0 {
		p.t.Fatalf("a2actl %v ended with %d:\n%s", args, code, out)
	}
	return out
}

func (p *person) systemctl(args ...string) string {
	p.t.Helper()
	out, code := p.run("systemctl", append([]string{"--user", "--no-pager"}, args...)...)
	if code != 0 {
		p.t.Fatalf("systemctl --user %v ended with %d:\n%s", args, code, out)
	}
	return out
}

// setup turns the bridge on at the person's port.
func (p *person) setup(more ...string) string {
	p.t.Helper()
	return p.ctl(append([]string{"setup", "--port", strconv.Itoa(p.port)}, more...)...)
}

func (p *person) addr() string { return net.JoinHostPort(packaging.Host, strconv.Itoa(p.port)) }

func (p *person) units() string { return filepath.Join(p.home, ".config/systemd/user") }

// health is the status of a plain request; an error is one of the connection.
func (p *person) health() (int, error) {
	resp, err := p.client.Get("http://" + p.addr() + "/healthz")
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// wantHealth asks once.
func (p *person) wantHealth(want int) {
	p.t.Helper()
	if got, err := p.health(); err != nil || got != want {
		p.t.Fatalf("healthz gives %d, %v; want %d", got, err, want)
	}
}

// show reads one property of a unit.
func (p *person) show(unit, property string) string {
	p.t.Helper()
	return strings.TrimSpace(p.systemctl("show", "--value", "--property="+property, unit))
}

func (p *person) pid() int {
	p.t.Helper()
	pid, err := strconv.Atoi(p.show(packaging.Service, "MainPID"))
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

// wantActive compares the state of units.
func (p *person) wantActive(want string, units ...string) {
	p.t.Helper()
	for _, u := range units {
		var got string
		// A daemon answers before the manager has read that it is ready.
		bridgetest.Eventually(p.t, u+" is between two states no longer", func() bool {
			got = p.show(u, "ActiveState")
			return got != "activating" && got != "deactivating" && got != "reloading"
		})
		if got != want {
			p.t.Errorf("%s is %s, want %s", u, got, want)
		}
	}
}

var sockets = []string{packaging.HTTPSocket, packaging.HostSocket, packaging.ControlSocket}

// write makes a file below the home.
func (p *person) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// dropIn adds lines of the person's own to a unit.
func (p *person) dropIn(unit, text string) {
	p.t.Helper()
	p.write(".config/systemd/user/"+unit+".d/90-own.conf", text)
	p.systemctl("daemon-reload")
}

// tree lists what lies below directories of the home, with the targets of
// links and the sizes of files.
func (p *person) tree(dirs ...string) []string {
	p.t.Helper()
	var out []string
	for _, dir := range dirs {
		err := filepath.Walk(filepath.Join(p.home, dir), func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return nil // a directory that is not there holds nothing
			}
			rel, target := strings.TrimPrefix(path, p.home+"/"), ""
			if info.Mode()&os.ModeSymlink != 0 {
				target, _ = os.Readlink(path)
			}
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s", rel, target)))
			return nil
		})
		if err != nil {
			p.t.Fatal(err)
		}
	}
	slices.Sort(out)
	return out
}
