package bridgetest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed npm/package.json
var npmPackage []byte

//go:embed npm/package-lock.json
var npmLock []byte

// Limits of the one step that may reach beyond this machine.
const (
	// npmTimeout bounds the installation: about a minute on two cores with a good connection.
	npmTimeout = 8 * time.Minute
	// npmNews is how often a running installation says that it is still at it.
	npmNews = 15 * time.Second
)

// Toolbox holds the paths of the real programs that tests talk to, in the exact versions of npm/package-lock.json.
type Toolbox struct {
	NodeModules string // the installed tree
	Bin         string // a directory for PATH with bun and node, and nothing else
	Bun         string // the runtime of omp
	Node        string // node 22, which the MCP clients need
	OMP         string // omp, for Bun to run
	Claude      string // Claude Code, a native program
	Inspector   string // the MCP inspector, for Node to run
	Conformance string // the MCP conformance suite, for Node to run
	TSC         string // the TypeScript compiler, for Node to run
}

var installOnce = sync.OnceValues(install)

// Tools returns the programs of npm/package-lock.json. The first test process of a machine installs them with one
// `npm ci` into the cache; from then on no network is needed. Where that cannot be done, Require decides.
func Tools(t testing.TB) *Toolbox {
	t.Helper()
	Require(t, true, "") // A2A_E2E=off installs nothing
	box, err := installOnce()
	if err != nil {
		Require(t, false, err.Error())
	}
	return box
}

func install() (*Toolbox, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(npmPackage)
	sum.Write(npmLock)
	home := filepath.Join(cache, "npm-"+hex.EncodeToString(sum.Sum(nil))[:16])
	box, err := open(home)
	if err == nil {
		return box, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), npmTimeout)
	defer cancel()
	err = locked(ctx, cache, "npm", func() error {
		if box, err = open(home); err == nil { // somebody else was faster
			return nil
		}
		return npmInstall(ctx, home)
	})
	if err != nil {
		return nil, err
	}
	return open(home)
}

// npmInstall builds the tree beside home and renames it there, so that home is complete whenever it exists.
func npmInstall(ctx context.Context, home string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not installed")
	}
	stage := home + ".part"
	for _, old := range []string{stage, home} { // an interrupted run, or a tree that a temp cleaner has nibbled at
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("clear the test cache: %w", err)
		}
	}
	if err := os.Mkdir(stage, 0o700); err != nil {
		return fmt.Errorf("make the test cache: %w", err)
	}
	for name, data := range map[string][]byte{"package.json": npmPackage, "package-lock.json": npmLock} {
		if err := os.WriteFile(filepath.Join(stage, name), data, 0o600); err != nil {
			return fmt.Errorf("fill the test cache: %w", err)
		}
	}

	// Install scripts stay off: they would fetch more from elsewhere, and every program we need lies in its package.
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = stage
	cmd.WaitDelay = 10 * time.Second
	stop := reportProgress("installing the test tools with npm ci (once per machine, about 2 GB)")
	out, err := cmd.CombinedOutput()
	stop()
	if err != nil {
		return fmt.Errorf("npm ci for the test tools: %w\n%s", err, lastLines(string(out), 15))
	}
	if err := linkRuntimes(stage); err != nil {
		return err
	}
	if _, err := open(stage); err != nil {
		return err
	}
	return os.Rename(stage, home)
}

// linkRuntimes makes the directory for PATH. Without install scripts the packages of bun and node do not put their
// programs where their own `bin` entries point, but the platform packages hold them.
func linkRuntimes(home string) error {
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	bunArch := strings.Replace(arch, "arm64", "aarch64", 1)
	bun := fmt.Sprintf("../node_modules/@oven/bun-%s-%s/bin/bun", runtime.GOOS, bunArch)
	if err := os.Symlink(bun, filepath.Join(bin, "bun")); err != nil {
		return err
	}
	node := fmt.Sprintf("../node_modules/node-%s-%s/bin/node", runtime.GOOS, arch)
	if _, err := os.Stat(filepath.Join(bin, node)); err != nil { // no such package for this platform
		if node, err = exec.LookPath("node"); err != nil {
			return errors.New("node 22 is not installed")
		}
	}
	if err := os.Symlink(node, filepath.Join(bin, "node")); err != nil {
		return err
	}
	claude := fmt.Sprintf("node_modules/@anthropic-ai/claude-code-%s-%s/claude", runtime.GOOS, arch)
	return os.Symlink(claude, filepath.Join(home, "claude"))
}

// open returns the programs under home, or which of them is missing.
func open(home string) (*Toolbox, error) {
	modules := filepath.Join(home, "node_modules")
	box := &Toolbox{
		NodeModules: modules,
		Bin:         filepath.Join(home, "bin"),
		Bun:         filepath.Join(home, "bin", "bun"),
		Node:        filepath.Join(home, "bin", "node"),
		OMP:         filepath.Join(modules, "@oh-my-pi/pi-coding-agent/dist/cli.js"),
		Claude:      filepath.Join(home, "claude"),
		Inspector:   filepath.Join(modules, "@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
		Conformance: filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js"),
		TSC:         filepath.Join(modules, "typescript/bin/tsc"),
	}
	for _, path := range []string{box.Bun, box.Node, box.OMP, box.Claude, box.Inspector, box.Conformance, box.TSC} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("the test tools are not complete: %w", err)
		}
	}
	return box, nil
}

// reportProgress says on stderr what is being waited for until the returned function is called.
func reportProgress(what string) (stop func()) {
	began := time.Now()
	done := make(chan struct{})
	ticker := time.NewTicker(npmNews)
	fmt.Fprintf(os.Stderr, "%s\n", what)
	go func() {
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "%s: %s\n", what, time.Since(began).Round(time.Second))
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
