package e2e_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/probe"
)

var secretForm = regexp.MustCompile(`a2ab_[A-Za-z0-9_-]{20,}`)

// TestChainOwnerInATerminal is the owner's side: omp on a screen, attached to the daemon, while a remote client calls.
func TestChainOwnerInATerminal(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	term := bridgetest.StartOMPTerminal(t, c.user(t, bridgetest.OMPOptions{Tools: "{ approvalMode: yolo, approval: { bash: prompt } }"}))
	term.AwaitScreen(t, `a2a: attached as "app" on `+c.URL, "No peers yet")
	host := c.awaitHost(t)
	if host.TTY == nil || !strings.HasPrefix(*host.TTY, "/dev/pts/") || host.Tmux == nil || *host.Tmux != "work:0.0" {
		t.Errorf("the daemon cannot say where the owner is: %+v", host)
	}

	old := token(t, c.Bridge, "laptop")
	laptop := probe.New(c.URL, old)
	defer laptop.Close()
	ran := func(name string) bool { return exists(filepath.Join(term.Dir, name)) }
	// ask has the laptop call bash and the owner press keys at omp's question.
	ask := func(name string, keys ...string) probe.Result {
		t.Helper()
		type answer struct {
			result probe.Result
			err    error
		}
		answered := make(chan answer, 1)
		go func() {
			raw, err := json.Marshal(args{"command": "touch " + name + " && echo made-$((40+2))-" + name})
			if err != nil {
				answered <- answer{err: err}
				return
			}
			result, err := laptop.CallTool(t.Context(), "bash", raw, nil)
			answered <- answer{result, err}
		}()
		term.AwaitScreen(t, "Allow tool: bash", "touch "+name)
		if ran(name) {
			t.Errorf("%s ran before it was approved", name)
		}
		term.Keys(t, keys...)
		a := <-answered
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a.result
	}

	if got := ask("yes", "Enter"); got.IsError || !strings.Contains(got.Text, "made-42-yes") || !ran("yes") {
		t.Errorf("approved: %q, ran %t", got.Text, ran("yes"))
	}
	call := c.lastCall(t)
	term.AwaitScreen(t, "laptop ▸ bash  "+string(call.ID), "made-42-yes")

	got := ask("no", "Down", "Enter")
	if !got.IsError || got.Executed != bridge.ExecutedNo || !strings.Contains(got.Text, "Tool call denied by user: bash") || ran("no") {
		t.Errorf("denied: %q, executed %q, ran %t", got.Text, got.Executed, ran("no"))
	}
	c.wantCall(t, "bash", bridge.Refused, bridge.ExecutedNo)

	term.Type(t, "/a2a")
	term.AwaitScreen(t, `a2a: "app" (main) on `+c.URL, "laptop (", "2 today")

	term.Type(t, "/a2a rotate laptop")
	term.AwaitScreen(t, "shown this once:", "The old one stopped working.")
	fresh := secretForm.FindString(term.Screen(t))
	if fresh == "" || fresh == old {
		t.Fatalf("the screen shows the token %q", fresh)
	}
	_, err := laptop.ListTools(t.Context())
	var refusal *probe.StatusError
	if !errors.As(err, &refusal) || refusal.Status != http.StatusUnauthorized {
		t.Errorf("the old token gets %v, want 401", err)
	}
	renewed := probe.New(c.URL, fresh)
	defer renewed.Close()
	if tools, err := renewed.ListTools(t.Context()); err != nil || len(tools) == 0 {
		t.Errorf("the new token gets %d tools, %v", len(tools), err)
	}
}
