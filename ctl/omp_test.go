package ctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// run is a2actl in an environment of its own; it returns code, stdout and stderr.
func run(t *testing.T, environ []string, args ...string) (int, string, string) {
	t.Helper()
	var out, errOut strings.Builder
	a := &app{in: strings.NewReader(""), out: &out, errOut: &errOut, environ: environ, now: time.Now}
	root := newRootCmd(a)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	report(&errOut, err)
	return code(err), out.String(), errOut.String()
}

// patience is for a machine that runs every other test at the same time.
const patience = "3m"

// fakeModel lets omp start without a network: nobody is ever asked.
const fakeModel = `providers:
  fake: { baseUrl: "http://127.0.0.1:1/v1", api: openai-completions, apiKey: none, models: [ { id: fake-1, contextWindow: 100000 } ] }
`

// ompHome is the home of a user who has omp and a model.
func ompHome(t *testing.T, tools *bridgetest.Toolbox) (home string, environ []string) {
	t.Helper()
	home = bridgetest.SockDir(t)
	write := func(path, text string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(home, "bin/omp"), fmt.Sprintf("#!/bin/sh\nexec %q %q \"$@\"\n", tools.Bun, tools.OMP), 0o700)
	write(filepath.Join(home, ".omp/agent/models.yml"), fakeModel, 0o600)
	write(filepath.Join(home, ".omp/agent/config.yml"), "startup: { setupWizard: false, checkUpdate: false, quiet: true }\n", 0o600)
	environ = append(bridgetest.Env(home), "PATH="+filepath.Join(home, "bin")+":"+tools.Bin+":/usr/bin:/bin")
	return home, environ
}

func TestTheRealOMPProvesThatItLoadsTheExtension(t *testing.T) {
	t.Parallel()
	home, environ := ompHome(t, bridgetest.Tools(t))

	if code, out, _ := run(t, environ, "omp", "status"); code != exitFailed || !strings.Contains(out, "not installed") || !strings.Contains(out, "fix: a2actl omp install") {
		t.Errorf("omp status before = %d\n%s", code, out)
	}
	if code, _, said := run(t, environ, "omp", "install"); code != exitDone {
		t.Fatalf("omp install = %d\n%s", code, said)
	}
	code, out, said := run(t, environ, "omp", "status", "--timeout", patience)
	if code != exitDone || !strings.Contains(out, "omp 18.1.16 at "+filepath.Join(home, "bin/omp")+" loads the extension") {
		t.Errorf("omp status = %d\n%s%s", code, out, said)
	}
	if left, err := filepath.Glob(filepath.Join(home, ".omp/agent/sessions/*/*")); err != nil || len(left) > 0 {
		t.Errorf("the proof left sessions behind: %v %v", left, err)
	}

	// An extension that is there and does not load is not called fine.
	index := filepath.Join(home, ".omp/agent/extensions/a2a-bridge/src/index.ts")
	if err := os.WriteFile(index, []byte("throw new Error('broken on purpose');\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := run(t, environ, "omp", "status", "--timeout", "60s"); code != exitFailed || !strings.Contains(out, "FAIL") {
		t.Errorf("omp status of a broken extension = %d\n%s", code, out)
	}
}

func TestWithoutAModelTheProofSaysWhatOMPSaid(t *testing.T) {
	t.Parallel()
	home, environ := ompHome(t, bridgetest.Tools(t))
	if err := os.Remove(filepath.Join(home, ".omp/agent/models.yml")); err != nil {
		t.Fatal(err)
	}
	if code, _, said := run(t, environ, "omp", "install", "-q"); code != exitDone {
		t.Fatalf("omp install = %d\n%s", code, said)
	}
	code, out, _ := run(t, environ, "omp", "status", "--json", "--timeout", patience)
	if code != exitFailed || !strings.Contains(out, `"loads": false`) || !strings.Contains(out, "omp has no model yet, so it does not start") || !strings.Contains(out, "start omp once and log in") {
		t.Errorf("omp status = %d\n%s", code, out)
	}
}

func TestWithoutOMPTheStatusSaysWhereItLooked(t *testing.T) {
	t.Parallel()
	home := bridgetest.SockDir(t)
	environ := append(bridgetest.Env(home), "PATH="+filepath.Join(home, "bin"))
	if code, out, _ := run(t, environ, "omp", "status"); code != exitFailed || !strings.Contains(out, "no omp was found") {
		t.Errorf("omp status = %d\n%s", code, out)
	}
}
