package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// What the owner sees and presses: omp in a terminal.

func attachTerminal(t *testing.T, o bridgetest.OMPOptions, change func(*linkDaemon)) (*bridgetest.Terminal, *linkedHost) {
	t.Helper()
	d := newLinkDaemon(t).start(t)
	if change != nil {
		change(d)
	}
	o.HostSocket = d.path
	term := bridgetest.StartOMPTerminal(t, o)
	return term, d.host(t)
}

func TestOMPTerminalApprovals(t *testing.T) {
	t.Parallel()
	term, host := attachTerminal(t, bridgetest.OMPOptions{Tools: "{ approvalMode: yolo, approval: { bash: prompt } }"}, nil)
	ran := func(name string) bool { return exists(filepath.Join(term.Dir, name)) }
	ask := func(name string, options ...callOption) *linkedCall {
		t.Helper()
		c := host.call(t, "bash", args{"command": "touch " + name}, options...)
		term.AwaitScreen(t, "Allow tool: bash", "touch "+name)
		c.heardEvent(t, "approval pending")
		return c
	}
	if h := host.hello; !strings.HasPrefix(h.TTY, "/dev/pts/") || h.Tmux != "work:0.0" {
		t.Errorf("the owner is at tty %q, tmux %q", h.TTY, h.Tmux)
	}

	c := ask("yes")
	term.AwaitScreen(t, "laptop ▸ bash  "+string(c.callID)) // who asks stands above omp's own question
	term.Keys(t, "Enter")
	c.ok(t)
	if !ran("yes") {
		t.Error("approved, and it did not run")
	}

	c = ask("no")
	term.Keys(t, "Down", "Enter")
	if got := c.refused(t, hostlink.KindDenied, bridge.ExecutedNo); got != "Tool call denied by user: bash" || ran("no") {
		t.Errorf("message %q, ran %v", got, ran("no"))
	}

	c = ask("escape")
	term.Keys(t, "Escape")
	c.refused(t, hostlink.KindDenied, bridge.ExecutedNo)

	// Nobody answers. The question stays on the screen, and a late yes runs nothing: a question of ours with a time
	// limit would have chosen the highlighted answer by itself, which is yes.
	c = ask("late", approvalLimit(300*time.Millisecond))
	c.refused(t, hostlink.KindNotApproved, bridge.ExecutedNo)
	term.AwaitScreen(t, "touch late", "nobody approved it in time", "is over and nobody waits for it: answer Deny")
	term.Keys(t, "Enter")
	c = ask("after")
	term.Keys(t, "Enter")
	c.ok(t)
	if ran("escape") || ran("late") || !ran("after") {
		t.Errorf("ran: escape %v, late %v, after %v", ran("escape"), ran("late"), ran("after"))
	}
}

func TestOMPTerminalShowsCardsAndStoresNoArguments(t *testing.T) {
	t.Parallel()
	model := bridgetest.StartFakeModel(t,
		bridgetest.ModelStep{Text: "hello you"}, bridgetest.ModelStep{Text: "hello you"}, // answer and title
		bridgetest.ModelStep{Text: "second answer"})
	o := bridgetest.OMPOptions{Model: model, Home: t.TempDir(), Dir: filepath.Join(t.TempDir(), "app")}
	term, host := attachTerminal(t, o, nil)
	term.AwaitScreen(t, `a2a: attached as "app" on http://127.0.0.1:7717/mcp. No peers yet. /a2a shows more.`)
	term.Type(t, "hello model") // a session without a turn leaves no file
	term.AwaitScreen(t, "hello you")

	c := host.call(t, "bash", args{"command": "echo wrote-$((40+2)) # private-argument"}, func(p *hostlink.CallParams) { p.WaitedMs = 6_000 })
	c.ok(t)
	screen := term.AwaitScreen(t, "laptop ▸ bash  "+string(c.callID), "waited 6 s for omp, ran once", "wrote-42")
	if !strings.Contains(screen, "private-argument") {
		t.Error("the card does not show the command")
	}
	failed := host.call(t, "read", args{"path": "missing.txt"})
	failed.ok(t)
	term.AwaitScreen(t, "laptop ▸ read  "+string(failed.callID))

	// omp freezes open cards when a turn of its model ends
	held := host.call(t, "bash", args{"command": "until [ -e go ]; do sleep 0.05; done; echo held-$((1+1))"})
	held.heardEvent(t, "accepted")
	term.Type(t, "another turn")
	term.AwaitScreen(t, "second answer")
	host.await(t, "idle", func(n notices) bool { return len(n.states) >= 4 && n.state() == hostlink.StateIdle })
	writeFile(t, filepath.Join(term.Dir, "go"), "")
	held.ok(t)
	term.AwaitScreen(t, "held-2")

	if err := host.Notify(hostlink.MethodYou, hostlink.You{Name: "app", Main: true, Peers: []string{"laptop"}}); err != nil {
		t.Fatal(err)
	}
	term.AwaitScreen(t, "a2a app · laptop")
	term.Type(t, "/quit")
	<-host.ended
	if byes := host.told().byes; len(byes) != 1 {
		t.Errorf("byes: %+v", byes)
	}

	sessions := sessionFiles(t, &term.OMPOptions)
	if strings.Contains(sessions, "private-argument") || strings.Contains(sessions, "wrote-42") {
		t.Error("the session file keeps what the peer asked for")
	}
	if !strings.Contains(sessions, "laptop ▸ bash") {
		t.Error("the session file says nothing of the call: has omp stopped to write these lines?")
	}
	// The next start must not claim that calls were cut off.
	o.Args = []string{"--continue"}
	again, host := attachTerminal(t, o, nil)
	host.call(t, "bash", args{"command": "echo second start"}).ok(t)
	screen = again.AwaitScreen(t, "second start", "hello you")
	if strings.Contains(screen, "remained pending") {
		t.Error("omp takes cards for calls that were cut off")
	}
}

func sessionFiles(t *testing.T, o *bridgetest.OMPOptions) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(o.AgentDir(), "sessions", "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("session files: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

func TestOMPTerminalCommand(t *testing.T) {
	t.Parallel()
	used := time.Now().Add(-3 * time.Minute)
	var mu sync.Mutex
	var asked []string
	term, _ := attachTerminal(t, bridgetest.OMPOptions{}, func(d *linkDaemon) {
		d.welcome = func(_ *linkedHost, w *hostlink.Welcome) {
			w.Address, w.Insecure, w.Names, w.Seen = "http://0.0.0.0:7717/mcp", true, []string{"laptop"}, []string{"laptop"}
		}
		d.verbs = func(r hostlink.Request) (any, *hostlink.Error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, fmt.Sprintf("%s %s %d", r.Verb, r.Name, r.ForMs))
			switch r.Verb {
			case hostlink.VerbStatus:
				return hostlink.StatusReply{
					Address: "http://0.0.0.0:7717/mcp", Name: "app", Main: true, Insecure: true,
					Tokens: []hostlink.StatusToken{{Name: "laptop", Client: "omp", LastUsed: &used}, {Name: "ci"}},
					Calls:  hostlink.StatusCalls{Running: 1, Today: 212},
				}, nil
			case hostlink.VerbRotate, hostlink.VerbToken:
				if r.Name == "nobody" {
					return nil, &hostlink.Error{Kind: hostlink.KindNotFound, Message: `there is no token "nobody"`}
				}
				return map[string]string{"name": "laptop", "token": "a2ab_" + r.Verb + "-secret"}, nil
			}
			return map[string]any{"until": nil}, nil
		}
	})
	term.AwaitScreen(t, "Peers: laptop.", "listens beyond loopback (http://0.0.0.0:7717/mcp)")
	for _, step := range []struct{ line, shows string }{
		{"/a2a", "laptop (omp, 3 min ago); ci (never used)"},
		{"/a2a rotate laptop", "a2ab_rotate-secret"},
		{"/a2a token phone", "a2ab_token-secret"},
		{"/a2a rotate nobody", `there is no token "nobody"`},
		{"/a2a pause 10m", "paused for 10m"},
		{"/a2a resume", "taking calls again"},
		{"/a2a help", "take no more calls"},
	} {
		term.Type(t, step.line)
		screen := term.AwaitScreen(t, step.shows)
		if strings.Contains(step.shows, "secret") && strings.Count(screen, step.shows) != 1 {
			t.Errorf("%s shows the secret more than once", step.line)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"status  0", "rotate laptop 0", "token phone 0", "rotate nobody 0", "pause  600000", "resume  0"}
	if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the daemon was asked:\n%s", got)
	}
	leaked := false
	err := filepath.WalkDir(term.Home, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "-secret") {
			leaked = true
			t.Errorf("the secret is in %s", path)
		}
		return err
	})
	if err != nil && !leaked {
		t.Logf("looked at most of omp's home: %v", err) // omp makes and removes files while we look
	}
}
