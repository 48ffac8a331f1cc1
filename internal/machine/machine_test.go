package machine_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
)

// program writes a shell script and returns its path.
func program(t *testing.T, path, script string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	// Written by a child: a script that this process has open for writing while
	// another test forks cannot be executed (ETXTBSY).
	write := exec.Command("/bin/sh", "-c", `printf '#!/bin/sh\n%s\n' "$1" >"$2" && chmod 700 "$2"`, "sh", script, path)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestOMPIsFoundInPathAndThenWhereInstallersPutIt(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	if machineHasOMP() {
		t.Skip("this machine has an omp of its own")
	}
	env := environment(map[string]string{"HOME": home, "PATH": "/usr/bin:relative:" + dir})
	if o, ok := machine.FindOMP(t.Context(), env); ok {
		t.Errorf("found %+v", o)
	}
	if err := os.Mkdir(filepath.Join(dir, "omp"), 0o700); err != nil { // a directory is no program
		t.Fatal(err)
	}
	inHome := program(t, filepath.Join(home, ".bun/bin/omp"), `echo "omp/18.1.16"`)
	if o, ok := machine.FindOMP(t.Context(), env); !ok || o != (machine.OMP{Path: inHome, Version: "18.1.16"}) {
		t.Errorf("FindOMP = %+v, %v", o, ok)
	}
	if err := os.Remove(filepath.Join(dir, "omp")); err != nil {
		t.Fatal(err)
	}
	inPath := program(t, filepath.Join(dir, "omp"), `echo "omp 18.2.0-beta.1"; echo more`)
	if o, ok := machine.FindOMP(t.Context(), env); !ok || o != (machine.OMP{Path: inPath, Version: "18.2.0-beta.1"}) {
		t.Errorf("FindOMP = %+v, %v", o, ok)
	}
}

// machineHasOMP tells whether the places outside the test's control are taken.
func machineHasOMP() bool {
	_, ok := machine.FindOMP(context.Background(), environment(nil))
	return ok
}

func TestOMPThatCannotSayItsVersionIsFoundAllTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := program(t, filepath.Join(dir, "omp"), `echo "bun: not found" >&2; exit 127`)
	o, ok := machine.FindOMP(t.Context(), environment(map[string]string{"PATH": dir}))
	if !ok || o.Path != path || o.Version != "" || o.Err == nil || o.Err.Error() != "omp: bun: not found" {
		t.Errorf("FindOMP = %+v, %v", o, ok)
	}
}

func TestOMPFindsBunBesideItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program(t, filepath.Join(dir, "bun-for-test"), `echo 1.2.3`)
	program(t, filepath.Join(dir, "omp"), `exec bun-for-test`)
	if o, _ := machine.FindOMP(t.Context(), environment(map[string]string{"PATH": dir})); o.Version != "1.2.3" {
		t.Errorf("FindOMP = %+v", o)
	}
}

func TestProgramThatHangsIsEndedWithItsChildren(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	path := program(t, filepath.Join(dir, "hang"), `sleep 1000 & echo $! >"`+pidFile+`"; wait`)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop := errors.New("enough")
	go func() {
		for { // until the child is there
			if text, err := os.ReadFile(pidFile); err == nil && len(text) > 0 {
				cancel(stop)
				return
			}
		}
	}()
	if _, err := machine.Run(ctx, nil, path); !errors.Is(err, stop) || !strings.HasPrefix(err.Error(), "hang: ") {
		t.Errorf("Run = %v", err)
	}
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		out, err := exec.Command("ps", "-o", "stat=", "-p", strings.TrimSpace(string(pid))).Output()
		if err != nil || strings.HasPrefix(string(out), "Z") {
			break // gone, or only waiting to be reaped
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child %s is left: %s", pid, out)
		}
	}
}

func TestOutputIsBoundedAndMessagesAreClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := program(t, filepath.Join(dir, "loud"), `head -c 1000000 /dev/zero | tr '\0' x`)
	if out, err := machine.Run(t.Context(), []string{"PATH=/usr/bin:/bin"}, path); err != nil || len(out) != 64<<10 {
		t.Errorf("Run = %d bytes, %v", len(out), err)
	}
	path = program(t, filepath.Join(dir, "rude"), `printf '\033[31mred\nsecond line' >&2; exit 1`)
	if _, err := machine.Run(t.Context(), nil, path); err == nil || err.Error() != "rude: [31mred" {
		t.Errorf("Run = %v", err)
	}
	if got := machine.Printable("a\x00b\x1bc\n"+strings.Repeat("é", 100), 10); got != "a b c éééé…" {
		t.Errorf("Printable = %q", got)
	}
}

// shown is what systemctl 252 says.
const shown = `Result=success
Id=a2a-bridge.socket
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=

Result=success
Id=dbus.socket
LoadState=loaded
ActiveState=active
SubState=listening
UnitFileState=static
FragmentPath=/usr/lib/systemd/user/dbus.socket
Listen=/run/user/1000/bus (Stream)
Listen=127.0.0.1:7717 (Stream)
NeedDaemonReload=yes

ExecMainStatus=217
MainPID=0
Id=a2a-bridge.service
ActiveState=activating
SubState=auto-restart
Result=exit-code
`

func TestUnitsAreReadFromSystemctl(t *testing.T) {
	t.Parallel()
	want := []machine.Unit{
		{Name: "a2a-bridge.socket", Load: "not-found", Active: "inactive", Sub: "dead", Result: "success"},
		{Name: "dbus.socket", Load: "loaded", Active: "active", Sub: "listening", Enabled: "static", Result: "success",
			File: "/usr/lib/systemd/user/dbus.socket", Listen: []string{"/run/user/1000/bus", "127.0.0.1:7717"}, Reload: true},
		{Name: "a2a-bridge.service", Active: "activating", Sub: "auto-restart", Result: "exit-code", MainStatus: 217},
	}
	got := machine.ParseUnits(shown)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].Found() || !got[1].Found() {
		t.Error("Found is the wrong way round")
	}
	for _, text := range []string{"", "\n\n\n", "garbage", "=\n\n="} {
		if got := machine.ParseUnits(text); len(got) > 0 {
			t.Errorf("ParseUnits(%q) = %v", text, got)
		}
	}
}

func TestServiceManagerThatIsNotThereIsToldWithItsReason(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("systemctl")
	bridgetest.Require(t, err == nil, "systemctl is not installed")
	env := environment(map[string]string{"XDG_RUNTIME_DIR": t.TempDir(), "HOME": t.TempDir(), "PATH": os.Getenv("PATH")})
	_, err = machine.Units(t.Context(), env, "a2a-bridge.socket")
	if err == nil || !strings.HasPrefix(err.Error(), "the user's service manager cannot be asked: systemctl: ") {
		t.Errorf("Units = %v", err)
	}
}

func TestWhatTheManagerRefusesIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program(t, filepath.Join(dir, "systemctl"), `echo "$@" >`+dir+`/told; echo "Failed to start it." >&2; exit 1`)
	err := machine.Manage(t.Context(), environment(map[string]string{"PATH": dir}), "start", "one.socket")
	if err == nil || err.Error() != "systemctl: Failed to start it." {
		t.Errorf("Manage = %v", err)
	}
	if told, err := os.ReadFile(filepath.Join(dir, "told")); err != nil || string(told) != "--user --no-pager --quiet start one.socket\n" {
		t.Errorf("systemctl was called with %q, %v", told, err)
	}
}

func TestAnswerAboutOtherUnitsIsNotBelieved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program(t, filepath.Join(dir, "systemctl"), `echo Id=one.socket`)
	env := environment(map[string]string{"PATH": dir})
	if units, err := machine.Units(t.Context(), env, "one.socket"); err != nil || units[0].Name != "one.socket" {
		t.Errorf("Units = %v, %v", units, err)
	}
	if units, err := machine.Units(t.Context(), env, "one.socket", "two.socket"); err == nil {
		t.Errorf("Units = %v", units)
	}
}

// unitFile is the one that counts.
func unitFile(unit string, env func(string) string) string {
	if files := machine.UnitFiles(unit, env); len(files) > 0 {
		return files[0]
	}
	return ""
}

func TestUnitFilesOfTheUserComeFirstAndMaskedOnesDoNotCount(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	config, data := filepath.Join(home, ".config/systemd/user"), filepath.Join(home, ".local/share/systemd/user")
	env := environment(map[string]string{"HOME": home})
	const unit = "a2a-bridge-test-of-machine.socket"
	if got := unitFile(unit, env); got != "" {
		t.Errorf("UnitFiles = %s", got)
	}
	for _, dir := range []string{data, config} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, unit), []byte("[Unit]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := unitFile(unit, env); got != filepath.Join(dir, unit) {
			t.Errorf("UnitFiles = %s, want the one in %s", got, dir)
		}
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(config, unit)), os.Symlink("/dev/null", filepath.Join(config, unit))); err != nil {
		t.Fatal(err)
	}
	if got := unitFile(unit, env); got != "" {
		t.Errorf("a masked unit is found as %s", got)
	}
	env = environment(map[string]string{"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "elsewhere")})
	if got := unitFile(unit, env); got != "" {
		t.Errorf("XDG_CONFIG_HOME is not followed: %s", got)
	}
}

func TestLingerIsKnownOnlyUnderSystemd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "me"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		booted, dir, user string
		want              machine.Answer
	}{
		{dir, dir, "me", machine.Yes},
		{dir, dir, "you", machine.No},
		{dir, filepath.Join(dir, "none"), "me", machine.No}, // made for the first user
		{filepath.Join(dir, "none"), dir, "me", machine.Unknown},
		{dir, dir, "", machine.Unknown},
		{dir, dir, "../me", machine.Unknown},
		{dir, filepath.Join(dir, "me"), "me", machine.Unknown}, // cannot be looked at
	} {
		if got := machine.LingerIn(test.booted, test.dir, test.user); got != test.want {
			t.Errorf("Linger(%+v) = %s", test, got)
		}
	}
}
