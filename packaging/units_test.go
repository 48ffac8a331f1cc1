package packaging_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

func TestUnitsDifferFromThePackagedOnesInTheProgramOnly(t *testing.T) {
	t.Parallel()
	var names []string
	for _, u := range packaging.Units("/opt/a 50%/a2a-bridge") {
		names = append(names, u.Name)
		packaged, err := os.ReadFile(filepath.Join("systemd", u.Name))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(string(packaged), "ExecStart=/usr/bin/a2a-bridge serve", `ExecStart="/opt/a 50%%/a2a-bridge" serve`)
		if diff := cmp.Diff(want, u.Text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", u.Name, diff)
		}
		if u.Name == packaging.Service && want == string(packaged) {
			t.Error("the service starts another program")
		}
	}
	want := []string{packaging.ControlSocket, packaging.HostSocket, packaging.Service, packaging.Sandbox, packaging.HTTPSocket}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, dir := range packaging.Dirs() {
		if path.Ext(dir) != ".d" {
			t.Errorf("%s is no directory of drop-ins", dir)
		}
	}
}

func TestPathsThatSystemdRefusesAreKnown(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/usr/bin/a2a-bridge": true, "/a b;c/100%/$HOME/ü": true,
		`/a"b`: false, "/it's": false, `/a\b`: false, "/a\nb": false, "/a\x7fb": false, "/a\xffb": false,
	} {
		if got := packaging.CanStart(path); got != want {
			t.Errorf("CanStart(%q) = %t", path, got)
		}
		if strings.ContainsRune(path, 0xfffd) || strings.Contains(path, "\n") {
			continue // would be another line
		}
		units := packaging.Units(path)
		_, said, err := analyze(t, units, append([]string{"verify"}, unitArgs(units)...)...)
		// That there is no such program is said of those that it takes.
		if takes := err != nil && strings.Contains(said, "is not executable"); takes != want {
			t.Errorf("systemd says of %q: %v, %s", path, err, said)
		}
	}
}

// analyze runs systemd-analyze on a copy of the units in a directory of their own.
func analyze(t *testing.T, units []packaging.Unit, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program, missing := exec.LookPath("systemd-analyze")
	bridgetest.Require(t, missing == nil, "systemd-analyze is not installed")
	dir := t.TempDir()
	for _, u := range units {
		file := filepath.Join(dir, u.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(u.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errOut strings.Builder
	cmd := exec.Command(program, append([]string{"--user", "--man=no", "--no-pager"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+bridgetest.SockDir(t), "SYSTEMD_COLORS=0", "LC_ALL=C")
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// unitArgs are the files of units, as systemd-analyze wants them.
func unitArgs(units []packaging.Unit) []string {
	var out []string
	for _, u := range units {
		if !strings.HasSuffix(u.Name, ".conf") {
			out = append(out, "./"+u.Name)
		}
	}
	return out
}

func TestSystemdHasNothingToSayAboutTheUnits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a 50% $HOME; b")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "a2a-bridge")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	units := packaging.Units(program)
	moved := append(units[:len(units):len(units)], packaging.Unit{Name: packaging.PortDropIn, Text: packaging.PortText(7718)})
	for name, units := range map[string][]packaging.Unit{"as they are": units, "with another port": moved} {
		// Unknown keys and bad values are warnings with exit code 0.
		_, said, err := analyze(t, units, append([]string{"verify"}, unitArgs(units)...)...)
		if err != nil || said != "" {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
	}
	wrong := append(units[:len(units):len(units)], packaging.Unit{Name: packaging.PortDropIn, Text: packaging.PortText(99999)})
	if _, said, err := analyze(t, wrong, append([]string{"verify"}, unitArgs(wrong)...)...); err == nil && said == "" {
		t.Error("a port that cannot be passes: this test shows nothing")
	}
}

func TestExposureIsLow(t *testing.T) {
	t.Parallel()
	units := packaging.Units("/bin/true")
	const threshold = "20" // 2.0 of 10
	out, said, err := analyze(t, units, "security", "--offline=true", "--threshold="+threshold, "./"+packaging.Service)
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, said)
	}
	var open []packaging.Unit
	for _, u := range units {
		if u.Name != packaging.Sandbox {
			open = append(open, u)
		}
	}
	if out, _, err := analyze(t, open, "security", "--offline=true", "--threshold="+threshold, "./"+packaging.Service); err == nil {
		t.Errorf("without the sandbox it is low as well: this test shows nothing\n%s", out)
	}
}
