package bridgetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/contrib"
)

// OMPOptions describe one real omp. Everything that it reads or writes lies in Home and Dir.
type OMPOptions struct {
	HostSocket string     // of the daemon it attaches to
	Name       string     // A2A_BRIDGE_NAME
	Tools      string     // config.yml's "tools", as YAML in braces; empty: everything is allowed
	Model      *FakeModel // nil: a model that cannot be reached, enough for remote calls
	Vision     bool       // the model takes images
	NoModel    bool       // no model at all
	Home       string     // empty: a fresh one
	Dir        string     // the working directory; empty: a fresh one
	Env        []string   // in addition to HOME, PATH and the like
	Args       []string   // in addition to the mode
	// Plain leaves the bridge extension out.
	Plain bool
	// Extensions are sources of more extensions, loaded before the bridge's.
	Extensions []string
}

const unreachableModel = "http://127.0.0.1:1/v1"

// prepare fills in what the options leave out and writes omp's configuration.
func (o *OMPOptions) prepare(t testing.TB) {
	t.Helper()
	if o.Home == "" {
		o.Home = t.TempDir()
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "app")
	}
	agent := o.AgentDir()
	for _, dir := range []string{agent, o.Dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatalf("prepare omp's home: %v", err)
		}
	}
	tools := o.Tools
	if tools == "" {
		tools = "{ approvalMode: yolo }"
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(agent, name), []byte(text), 0o600); err != nil {
			t.Fatalf("prepare omp's home: %v", err)
		}
	}
	// no setup wizard in front of the prompt, no question to a registry
	put("config.yml", "startup: { setupWizard: false, checkUpdate: false, quiet: true }\ntools: "+tools+"\n")
	if !o.NoModel {
		url, input := unreachableModel, ""
		if o.Model != nil {
			url = o.Model.URL
		}
		if o.Vision {
			input = ", input: [text, image]"
		}
		put("models.yml", fmt.Sprintf("providers:\n  fake: { baseUrl: %q, api: openai-completions, apiKey: not-a-real-key, models: [ { id: fake-1, contextWindow: 100000%s } ] }\n", url, input))
	}
	if !o.Plain {
		if err := contrib.Install(filepath.Join(agent, "extensions", contrib.Name)); err != nil {
			t.Fatalf("install the extension: %v", err)
		}
	}
	for n, source := range o.Extensions {
		put(fmt.Sprintf("probe%d.ts", n), source)
	}
}

// AgentDir is where omp keeps its configuration, sessions and extensions.
func (o *OMPOptions) AgentDir() string { return filepath.Join(o.Home, ".omp", "agent") }

// command is what to run: the runtime, omp, and its arguments.
func (o *OMPOptions) command(tools *Toolbox, mode ...string) []string {
	args := append([]string{tools.Bun, tools.OMP}, mode...)
	for n := range o.Extensions {
		args = append(args, "-e", filepath.Join(o.AgentDir(), fmt.Sprintf("probe%d.ts", n)))
	}
	return append(args, o.Args...)
}

// environ is the whole environment: nothing of the developer's own reaches omp.
func (o *OMPOptions) environ(tools *Toolbox) []string {
	env := []string{
		"HOME=" + o.Home, "PATH=" + tools.Bin + ":/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=xterm-256color",
		"A2A_BRIDGE_HOST_SOCKET=" + o.HostSocket,
	}
	if o.Name != "" {
		env = append(env, "A2A_BRIDGE_NAME="+o.Name)
	}
	return append(env, o.Env...)
}
