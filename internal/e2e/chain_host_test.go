package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/probe"
)

// hostRig is a chain whose omp lends its tools to a client of the Go SDK.
type hostRig struct {
	*chain
	omp    *bridgetest.OMP
	client session

	mu       sync.Mutex
	progress map[string]string // what each call has said so far, by its token
}

func (r *hostRig) in(name string) string { return filepath.Join(r.omp.Dir, name) }

func (r *hostRig) ran(name string) bool { return exists(r.in(name)) }

func (r *hostRig) put(t *testing.T, name, text string) {
	t.Helper()
	writeFile(t, r.in(name), text)
}

func (r *hostRig) heard(p *mcp.ProgressNotificationParams) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, _ := p.ProgressToken.(string)
	r.progress[name] += p.Message
}

func (r *hostRig) said(call string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress[call]
}

// started is a call that runs beside the test.
type started struct {
	cancel context.CancelFunc
	done   chan struct{}
	result *mcp.CallToolResult
	err    error
}

// start begins a call that reports progress under its name.
func (r *hostRig) start(t *testing.T, name, tool string, a args) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTime)
	c := &started{cancel: cancel, done: make(chan struct{})}
	p := &mcp.CallToolParams{Name: tool, Arguments: a}
	p.SetProgressToken(name)
	go func() {
		defer close(c.done)
		c.result, c.err = r.client.CallTool(ctx, p)
	}()
	t.Cleanup(func() {
		cancel()
		<-c.done
	})
	return c
}

// ok waits for the result.
func (c *started) ok(t *testing.T) *mcp.CallToolResult {
	t.Helper()
	<-c.done
	if c.err != nil {
		t.Fatalf("the call failed: %v", c.err)
	}
	return c.result
}

// refused checks that a result is the bridge's own error about a tool that did not run.
func refused(t *testing.T, r *mcp.CallToolResult, words ...string) {
	t.Helper()
	if !r.IsError || r.Meta["a2a-bridge/executed"] != "no" {
		t.Errorf("isError %t, executed %v, %q; want an error that nothing was executed", r.IsError, r.Meta["a2a-bridge/executed"], textOf(r))
	}
	for _, w := range append(words, "Not executed") {
		if !strings.Contains(textOf(r), w) {
			t.Errorf("the error %q does not say %q", textOf(r), w)
		}
	}
}

// TestChainRemoteClientUsesARunningOMP is the main job: a remote client uses the tools of a running omp through the daemon.
// One omp, one thing after another: each uses a fraction of what its start takes.
func TestChainRemoteClientUsesARunningOMP(t *testing.T) {
	t.Parallel()
	r := &hostRig{chain: startChain(t), progress: map[string]string{}}
	model := bridgetest.StartFakeModel(t,
		bridgetest.ModelStep{Tool: "task", Args: args{"agent": "task", "task": "say done"}},
		bridgetest.ModelStep{Tool: "yield", Args: args{"data": "done"}},
		bridgetest.ModelStep{Text: "the sub-agent is done"},
		bridgetest.ModelStep{Text: "the sub-agent is done"},
	)
	r.omp = r.lend(t, bridgetest.OMPOptions{
		Model: model, Vision: true, Extensions: []string{schemaProbe},
		Tools: "{ approvalMode: yolo, approval: { write: prompt, eval: deny } }",
	})
	r.client = goClient(t, r.Bridge, sessionRevision, r.heard)
	attached := r.awaitHost(t)
	if attached.Name != "app" || attached.Kind != "omp" || attached.Version != "18.1.16" || attached.PID != r.omp.PID() || !attached.Gate {
		t.Errorf("the daemon knows the host as %+v", attached)
	}

	t.Run("the list is omp's own", r.listsWhatOMPHas)
	t.Run("results arrive", r.results)
	t.Run("progress arrives before the result", r.progresses)
	t.Run("refused before anything runs", r.refuses)
	t.Run("prompt policy", r.prompts)
	t.Run("four calls at once overlap", r.overlaps)
	t.Run("a cancelled command leaves no process", r.cancels)
	t.Run("a sub-agent that ends changes nothing", func(t *testing.T) {
		r.omp.Prompt(t, "use a sub-agent")
		r.omp.Await(t, "the end of the turn", func(f bridgetest.Frame) bool { return f.Text("type") == "agent_end" })
		if n := len(model.Requests()); n < 3 {
			t.Errorf("the model was asked %d times: there was no sub-agent", n)
		}
		r.sameLink(t, attached.AttachedAt)
	})
	t.Run("a new session keeps the link", func(t *testing.T) {
		r.omp.Send(t, map[string]any{"type": "new_session"})
		r.omp.Await(t, "the new session", func(f bridgetest.Frame) bool { return f.Text("command") == "new_session" })
		r.sameLink(t, attached.AttachedAt)
	})
	for name, signal := range map[string]syscall.Signal{"restarts": syscall.SIGTERM, "is killed": syscall.SIGKILL} {
		t.Run("the daemon "+name+" while a command runs", func(t *testing.T) { r.outlives(t, signal) })
	}
	if !r.omp.Alive() {
		t.Error("omp has ended")
	}
}

// sameLink checks that omp has been attached since then and takes calls.
func (r *hostRig) sameLink(t *testing.T, since time.Time) {
	t.Helper()
	if got := r.client.text(t, "bash", args{"command": "echo still Main"}); !strings.Contains(got, "still Main") {
		t.Errorf("bash = %q", got)
	}
	if got := r.awaitHost(t); !got.AttachedAt.Equal(since) || got.PID != r.omp.PID() {
		t.Errorf("attached at %s as the process %d; it was %s, %d", got.AttachedAt, got.PID, since, r.omp.PID())
	}
}

func (r *hostRig) listsWhatOMPHas(t *testing.T) {
	r.omp.Prompt(t, "/schemas")
	path := filepath.Join(r.omp.Home, "schemas-done.json")
	bridgetest.Eventually(t, "omp's own list is written", func() bool { return exists(path) })
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Description string
		Schema      json.RawMessage
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	client := probe.New(r.URL, token(t, r.Bridge, "lister"))
	defer client.Close()
	listed, err := client.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]probe.Tool{}
	for _, tool := range listed {
		got[tool.Name] = tool
		if w := want[tool.Name]; tool.Description != w.Description || !bytes.Equal(tool.InputSchema, w.Schema) {
			t.Errorf("%s differs from what omp has: %s", tool.Name, cmp.Diff(string(w.Schema), string(tool.InputSchema)))
		}
	}
	for _, name := range []string{"read", "bash", "edit", "write"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not listed", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d tools are listed, omp has %d", len(got), len(want))
	}
}

func (r *hostRig) results(t *testing.T) {
	r.put(t, "a.txt", "hello from a\n")
	if got := r.client.call(t, "read", args{"path": "a.txt"}); got.IsError || !strings.Contains(textOf(got), "hello from a") {
		t.Errorf("read = %q", textOf(got))
	}
	r.wantCall(t, "read", bridge.Done, bridge.ExecutedYes)

	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	r.put(t, "p.png", picture.String())
	pictures := 0
	for _, block := range r.client.call(t, "read", args{"path": "p.png"}).Content {
		if i, ok := block.(*mcp.ImageContent); ok && strings.HasPrefix(i.MIMEType, "image/") && len(i.Data) > 0 {
			pictures++
		}
	}
	if pictures != 1 {
		t.Errorf("%d images came, want 1", pictures)
	}

	got := r.client.call(t, "bash", args{"command": "echo out; exit 3"})
	if !got.IsError || !strings.Contains(textOf(got), "out") || !strings.Contains(textOf(got), "code 3") {
		t.Errorf("bash that fails: isError %t, %q", got.IsError, textOf(got))
	}
	r.wantCall(t, "bash", bridge.Failed, bridge.ExecutedYes)
}

func (r *hostRig) progresses(t *testing.T) {
	c := r.start(t, "gated", "bash", args{"command": gate("gated")})
	bridgetest.Eventually(t, "the command's first words arrive", func() bool { return strings.Contains(r.said("gated"), "gated-begun") })
	select {
	case <-c.done:
		t.Fatalf("it has ended before it was let go: %v, %v", c.result, c.err)
	default:
	}
	r.put(t, "gated.go", "")
	if got := textOf(c.ok(t)); !strings.Contains(got, "gated-begun") || !strings.Contains(got, "gated-ended") {
		t.Errorf("bash = %q", got)
	}
}

func (r *hostRig) refuses(t *testing.T) {
	t.Run("denied by omp's policy", func(t *testing.T) {
		got := r.client.call(t, "eval", args{"language": "js", "code": "require('fs').writeFileSync('denied', '')"})
		refused(t, got, `Tool "eval" is blocked by user policy`)
		r.wantCall(t, "eval", bridge.Refused, bridge.ExecutedNo)
	})
	t.Run("not lent to this token", func(t *testing.T) {
		client := probe.New(r.URL, r.Token(t, auth.CreateOptions{Name: "reader", Tools: []string{"read"}}))
		defer client.Close()
		tools, err := client.ListTools(t.Context())
		if err != nil || len(tools) != 1 || tools[0].Name != "read" {
			t.Errorf("it sees %v, %v", tools, err)
		}
		got, err := client.CallTool(t.Context(), "bash", json.RawMessage(`{"command":"touch denied"}`), nil)
		if err != nil || !got.IsError || got.Executed != bridge.ExecutedNo {
			t.Errorf("bash = %+v, %v", got, err)
		}
	})
	t.Run("through another tool", func(t *testing.T) {
		// omp's write runs the tool that its path names; a token for write is none for bash.
		client := probe.New(r.URL, r.Token(t, auth.CreateOptions{Name: "writer", Tools: []string{"read", "write"}, Wait: time.Second}))
		defer client.Close()
		for _, path := range []string{"xd://bash", " XD://bash", "[xd://bash]", "[xd://bash#0A1B]", "xd://bash:raw"} {
			raw, err := json.Marshal(args{"path": path, "content": `{"command":"touch denied"}`})
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.CallTool(t.Context(), "write", raw, nil)
			if err != nil || !got.IsError || got.Executed != bridge.ExecutedNo || !strings.Contains(got.Text, "by its own name") {
				t.Errorf("write to %q: %q, executed %q, %v", path, got.Text, got.Executed, err)
			}
		}
	})
	t.Run("unknown", func(t *testing.T) {
		for _, name := range []string{"nope", "Bash", "xd://bash"} {
			refused(t, r.client.call(t, name, args{"command": "touch denied"}), name)
		}
	})
	t.Run("wrong arguments", func(t *testing.T) {
		refused(t, r.client.call(t, "read", args{"nope": 1}), "path")
		refused(t, r.client.call(t, "bash", args{"cmd": "touch denied"}), "command")
		r.wantCall(t, "bash", bridge.Refused, bridge.ExecutedNo)
	})
	if r.ran("denied") {
		t.Error("something ran")
	}
}

func (r *hostRig) prompts(t *testing.T) {
	write := func(name string) args { return args{"path": name, "content": "by " + name} }
	t.Run("answered yes", func(t *testing.T) {
		c := r.start(t, "yes", "write", write("yes.txt"))
		id := r.omp.Dialog(t, "yes.txt")
		bridgetest.Eventually(t, "the owner's a2actl shows what is asked", func() bool {
			open := r.Status(t).Calls.Open
			return len(open) == 1 && open[0].State == "awaiting approval" && strings.Contains(open[0].Args, "yes.txt")
		})
		if r.ran("yes.txt") {
			t.Error("it ran before it was approved")
		}
		r.omp.Answer(t, id, "Approve")
		if got := c.ok(t); got.IsError || !r.ran("yes.txt") {
			t.Errorf("approved: %q, ran %t", textOf(got), r.ran("yes.txt"))
		}
	})
	t.Run("answered no", func(t *testing.T) {
		c := r.start(t, "no", "write", write("no.txt"))
		r.omp.Answer(t, r.omp.Dialog(t, "no.txt"), "Deny")
		refused(t, c.ok(t), "Tool call denied by user: write")
		r.wantCall(t, "write", bridge.Refused, bridge.ExecutedNo)
	})
	t.Run("never answered", func(t *testing.T) {
		hasty := probe.New(r.URL, r.Token(t, auth.CreateOptions{Name: "hasty", Wait: time.Second}))
		defer hasty.Close()
		began := time.Now()
		got, err := hasty.CallTool(t.Context(), "write", json.RawMessage(`{"path":"never.txt","content":"x"}`), nil)
		if err != nil || !got.IsError || got.Executed != bridge.ExecutedNo || !strings.Contains(got.Text, "did not approve") {
			t.Errorf("nobody answered: %+v, %v", got, err)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("the owner had %s", took)
		}
		// A late yes comes to nothing. What is approved after it has run after it.
		r.omp.Answer(t, r.omp.Dialog(t, "never.txt"), "Approve")
		c := r.start(t, "after", "write", write("after.txt"))
		r.omp.Answer(t, r.omp.Dialog(t, "after.txt"), "Approve")
		c.ok(t)
	})
	if r.ran("no.txt") || r.ran("never.txt") || !r.ran("after.txt") {
		t.Errorf("written: denied %t, never approved %t, approved %t", r.ran("no.txt"), r.ran("never.txt"), r.ran("after.txt"))
	}
}

func (r *hostRig) overlaps(t *testing.T) {
	var calls []*started
	for n := range 4 {
		// each waits until all four are there
		calls = append(calls, r.start(t, strconv.Itoa(n), "bash", args{
			"command": "touch here." + strconv.Itoa(n) + "; until [ $(ls here.* | wc -l) = 4 ]; do sleep 0.05; done; echo all", "timeout": 60}))
	}
	for n, c := range calls {
		if got := textOf(c.ok(t)); !strings.Contains(got, "all") {
			t.Errorf("call %d did not meet the others: %q", n, got)
		}
	}
}

func (r *hostRig) cancels(t *testing.T) {
	c := r.start(t, "cancel", "bash", args{"command": "sh -c 'sleep 300 & echo $! > child; echo $$ > shell; wait'"})
	pids := []int{awaitPID(t, r.in("child")), awaitPID(t, r.in("shell"))}
	c.cancel()
	<-c.done
	for _, pid := range pids {
		bridgetest.Eventually(t, "the command's process is gone", func() bool { return !bridgetest.ProcessAlive(pid) })
	}
	r.wantCall(t, "bash", bridge.Cancelled, bridge.ExecutedUnknown)
}

// outlives: a daemon that ends in the middle of a call costs nothing; the next one delivers the result, and the tool ran
// once.
func (r *hostRig) outlives(t *testing.T, s syscall.Signal) {
	name := "outlives-" + strconv.Itoa(int(s))
	c := r.start(t, name, "bash", args{"command": gate(name)})
	bridgetest.Eventually(t, "it runs and is heard", func() bool { return strings.Contains(r.said(name), name+"-begun") })
	r.restart(t, s)
	r.awaitHost(t)
	r.put(t, name+".go", "")
	if got := textOf(c.ok(t)); !strings.Contains(got, name+"-ended") {
		t.Errorf("the result is %q", got)
	}
	if got := words(t, r.in(name+".ledger")); len(got) != 1 {
		t.Errorf("it ran %d times", len(got))
	}
	r.wantCall(t, "bash", bridge.Done, bridge.ExecutedYes)
	if got := r.client.text(t, "bash", args{"command": "echo and on"}); !strings.Contains(got, "and on") {
		t.Errorf("the next call: %q", got)
	}
}
