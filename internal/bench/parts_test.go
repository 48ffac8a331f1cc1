package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	smallResult = 256 << 10
	largeResult = 1 << 20
	// stopTime is how long the daemon may take to end.
	stopTime = 10 * time.Second
	// ompEnd marks a text that the omp side must return.
	ompEnd = "the end of the file"
)

// The tools of the scripted host.
const (
	echoTool   = "echo"
	effectTool = "effect"
	smallTool  = "small"
	largeTool  = "large"
)

// parts are everything that is measured.
type parts struct {
	file string // that `read` reads

	bun    *target // inside omp
	bare   *target // bare Go handler
	omp    *target // the bridge, omp behind it
	script *target // the bridge, the scripted host behind it
	ompM   *target // as omp, in the modern era
}

// results are what the scripted host and the bare handler's host answer.
func results() map[string]json.RawMessage {
	return map[string]json.RawMessage{
		echoTool:   bridgetest.TextResult("echo"),
		effectTool: bridgetest.TextResult("effect"),
		smallTool:  bridgetest.TextResult(strings.Repeat("x", smallResult)),
		largeTool:  bridgetest.TextResult(strings.Repeat("x", largeResult)),
	}
}

func startParts(t testing.TB) parts {
	t.Helper()
	paths, url, token := startDaemon(t)
	dir := t.TempDir()
	p := parts{file: filepath.Join(dir, "read.txt")}
	text := strings.Repeat("A line of a file as people have them, with some words in it.\n", 40) + ompEnd + "\n"
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	const bunToken = "bench"
	urlFile := filepath.Join(t.TempDir(), "url")
	bridgetest.StartOMP(t, bridgetest.OMPOptions{
		HostSocket: paths.HostSocket, Name: "omp", Dir: dir,
		Args: []string{"-e", filepath.Join(bridgetest.ModuleRoot(t), "internal/bench/bun-server")},
		Env:  []string{"A2A_BENCH_URL_FILE=" + urlFile, "A2A_BENCH_TOKEN=" + bunToken},
	})
	var bunURL []byte
	bridgetest.Eventually(t, "the server inside omp listens", func() bool {
		var err error
		bunURL, err = os.ReadFile(urlFile)
		return err == nil
	})
	p.bun = newTarget(string(bunURL), bunToken, legacy).connect(t)

	answers := results()
	bareURL, bareToken := startBare(t, answers)
	p.bare = newTarget(bareURL, bareToken, legacy)

	startScripted(t, paths.HostSocket, answers)
	p.script = newTarget(url+"/script", token, legacy).connect(t)
	p.omp = newTarget(url+"/omp", token, legacy).connect(t)
	p.ompM = newTarget(url+"/omp", token, modern).connect(t)
	p.script.list(1, largeTool).until(t, "the bridge lists the scripted host's tools")
	p.omp.call(1, "read", map[string]any{"path": p.file}, ompEnd).until(t, "the bridge reads a file through omp")
	return p
}

// startDaemon runs the real program, and returns its address and a token.
func startDaemon(t testing.TB) (config.Paths, string, string) {
	t.Helper()
	home := bridgetest.SockDir(t)
	if err := os.MkdirAll(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	addr := bridgetest.FreePort(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	env := append(bridgetest.Env(home), "A2A_BRIDGE_HTTP_PORT="+port)
	lookup := func(key string) string {
		for _, pair := range env {
			if value, ok := strings.CutPrefix(pair, key+"="); ok {
				return value
			}
		}
		return ""
	}
	paths, err := config.ResolvePaths(lookup, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := auth.Open(paths.Tokens, paths.TokenUse, time.Now).Create(auth.CreateOptions{Name: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), bridgetest.Binaries(t).Bridge, "serve")
	var journal bytes.Buffer
	cmd.Env, cmd.Stderr = env, &journal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		timer := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the daemon: %v\n%s", err, journal.String())
		}
	})
	bridgetest.Eventually(t, "the daemon listens", func() bool {
		for _, at := range [][2]string{{"tcp", addr}, {"unix", paths.HostSocket}} {
			conn, err := net.Dial(at[0], at[1])
			if err != nil {
				return false
			}
			_ = conn.Close() // only a knock
		}
		return true
	})
	return paths, "http://" + addr + "/mcp", secret.Reveal()
}

// startScripted attaches the host for what omp cannot do: it cuts long texts.
func startScripted(t testing.TB, socket string, answers map[string]json.RawMessage) {
	t.Helper()
	var tools []bridgetest.ScriptedTool
	for name, result := range answers {
		tool := bridgetest.ScriptedTool{Name: name, Tier: bridge.TierRead,
			Run: func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
				return result, nil
			}}
		if name == effectTool {
			tool.Tier = ""
		}
		tools = append(tools, tool)
	}
	bridgetest.StartScripted(t, bridgetest.HostOptions{Name: "script", Tools: tools,
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}}).WaitWelcome(t)
}
