package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// remoteOMP is an omp of another user, whose model does what the test says.
type remoteOMP struct {
	*bridgetest.OMP
	model *bridgetest.FakeModel
}

// remote starts an omp that knows of the bridge what print-remote-config printed, and nothing else.
func (c *chain) remote(t *testing.T, name string) *remoteOMP {
	t.Helper()
	o := bridgetest.OMPOptions{Plain: true, Home: t.TempDir(), Model: bridgetest.StartFakeModel(t)}
	writeMCP(t, o, c.ctl(t, "print-remote-config", name, "--client", "omp", "--local"))
	return &remoteOMP{bridgetest.StartOMP(t, o), o.Model}
}

// writeMCP gives an omp its servers.
func writeMCP(t *testing.T, o bridgetest.OMPOptions, config string) {
	t.Helper()
	if err := os.MkdirAll(o.AgentDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(o.AgentDir(), "mcp.json"), config)
}

// turn has the user say something, the model answer with the steps, and waits for the end. It returns what the model was
// told in the last request.
func (r *remoteOMP) turn(t *testing.T, steps ...bridgetest.ModelStep) modelRequest {
	t.Helper()
	r.model.Add(steps...)
	r.Prompt(t, "go on")
	r.Await(t, "the end of the turn", func(f bridgetest.Frame) bool { return f.Text("type") == "agent_end" })
	requests := r.model.Requests()
	last := modelRequest{raw: string(requests[len(requests)-1])}
	if err := json.Unmarshal([]byte(last.raw), &last); err != nil {
		t.Fatal(err)
	}
	return last
}

// modelRequest is one request to the model: everything that it knows.
type modelRequest struct {
	raw      string
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
}

// told is the newest message of that role.
func (m modelRequest) told(role string) string {
	for _, msg := range slices.Backward(m.Messages) {
		if msg.Role == role {
			return string(msg.Content)
		}
	}
	return ""
}

// calls is how a model of omp 18 calls a tool of an MCP server: omp does not offer these by schema, but as places that its
// own tool "write" writes arguments to.
func calls(tool string, a args) bridgetest.ModelStep {
	content, err := json.Marshal(a)
	if err != nil {
		panic(err) // texts always encode
	}
	return bridgetest.ModelStep{Tool: "write", Args: args{"path": "xd://" + tool, "content": string(content)}}
}

// TestChainRemoteOMPUsesARunningOMP has a real omp at both ends. The remote one knows what print-remote-config printed.
func TestChainRemoteOMPUsesARunningOMP(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	host := c.lend(t, bridgetest.OMPOptions{})
	in := func(name string) string { return filepath.Join(host.Dir, name) }
	writeFile(t, in("a.txt"), "only the lent omp has this")
	remote := c.remote(t, "laptop")
	read := func() {
		t.Helper()
		got := remote.turn(t, calls("mcp__bridge_read", args{"path": "a.txt"}), bridgetest.ModelStep{Text: "I have read it"})
		if told := got.told("tool"); !strings.Contains(told, "only the lent omp has this") {
			t.Errorf("the model was told %q", told)
		}
	}

	bridgetest.Eventually(t, "its model is told of the lent tools", func() bool {
		return strings.Contains(remote.turn(t, bridgetest.ModelStep{Text: "hello"}).raw, "xd://mcp__bridge_read")
	})
	read()
	if got := c.lastCall(t); got.Peer != "laptop" || !strings.HasPrefix(got.Client, "omp-coding-agent") || got.Tool != "read" || got.State != string(bridge.Done) {
		t.Errorf("the ledger says %+v", got)
	}

	remote.model.Add(calls("mcp__bridge_bash", args{"command": "sh -c 'sleep 300 & echo $! > child; echo $$ > shell; wait'"}))
	remote.Prompt(t, "run something long")
	pids := []int{awaitPID(t, in("child")), awaitPID(t, in("shell"))}
	remote.Send(t, map[string]any{"type": "abort"})
	for _, pid := range pids {
		bridgetest.Eventually(t, "the command's process is gone", func() bool { return !bridgetest.ProcessAlive(pid) })
	}
	remote.Await(t, "the end of the turn", func(f bridgetest.Frame) bool { return f.Text("type") == "agent_end" })
	c.wantCall(t, "bash", bridge.Cancelled, bridge.ExecutedUnknown)
	if shown := c.ctl(t, "calls", "--limit", "1"); !strings.Contains(shown, "cancelled") || !strings.Contains(shown, "laptop") {
		t.Errorf("a2actl calls says:\n%s", shown)
	}
	read()

	c.restart(t, syscall.SIGTERM)
	c.awaitHost(t)
	read()
	if !host.Alive() || !remote.Alive() {
		t.Error("an omp has ended")
	}
}
