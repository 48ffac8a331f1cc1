package e2e_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// What omp does in ways that nobody would guess, and what the extension makes of each.

func TestOMPWithoutAModelNeverAttaches(t *testing.T) {
	t.Parallel()
	d := newLinkDaemon(t).start(t)
	omp := bridgetest.LaunchOMP(t, bridgetest.OMPOptions{HostSocket: d.path, NoModel: true})
	if code := omp.AwaitExit(t); code != 1 {
		t.Errorf("omp ended with %d", code)
	}
	select {
	case h := <-d.hosts:
		t.Errorf("it attached: %+v", h.hello)
	default:
	}
}

// settingsProbe takes the settings away from the session, as an update of omp might.
const settingsProbe = `
import { AgentRegistry } from "@oh-my-pi/pi-coding-agent";
export default function (pi) {
  pi.registerCommand("nosettings", { handler: async (_args, ctx) => {
    Object.defineProperty(AgentRegistry.global().get("Main").session, "settings", { value: undefined, configurable: true });
    ctx.ui.notify("settings are gone");
  } });
}`

func TestOMPWithoutSettingsRunsNothing(t *testing.T) {
	t.Parallel()
	// Without settings omp's gate allows everything, whatever its policy says.
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{Tools: "{ approvalMode: yolo, approval: { bash: deny } }", Extensions: []string{settingsProbe}})
	touch := args{"command": "touch ran"}
	host.call(t, "bash", touch).refused(t, hostlink.KindDenied, bridge.ExecutedNo)
	omp.Prompt(t, "/nosettings")
	omp.Notice(t, "settings are gone")
	host.call(t, "bash", touch).refused(t, hostlink.KindNoGate, bridge.ExecutedNo)
	host.call(t, "read", args{"path": "."}).refused(t, hostlink.KindNoGate, bridge.ExecutedNo)
	if exists(filepath.Join(omp.Dir, "ran")) {
		t.Error("it ran")
	}
}

func TestOMPArgumentsAreCheckedBeforeATool(t *testing.T) {
	t.Parallel()
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{})
	for _, wrong := range []any{args{}, args{"nope": 1}} {
		got := host.call(t, "read", wrong).refused(t, hostlink.KindBadArguments, bridge.ExecutedNo)
		if !strings.Contains(got, "path") {
			t.Errorf("read %v: %q does not say what is wrong", wrong, got)
		}
	}
	host.call(t, "read", []int{1}).refused(t, hostlink.KindBadArguments, bridge.ExecutedNo)
	// omp's own leniency stays: a number where a string belongs
	writeFile(t, filepath.Join(omp.Dir, "3"), "number three")
	if got := host.call(t, "read", args{"path": 3}).ok(t); !strings.Contains(got.text(), "number three") {
		t.Errorf("read = %+v", got)
	}
}

func TestOMPLivesOnWhenCalledWhileItsModelSpeaks(t *testing.T) {
	t.Parallel()
	// In rpc mode an extension's message in the middle of a turn ends the process.
	hold := make(chan struct{})
	model := bridgetest.StartFakeModel(t, bridgetest.ModelStep{Text: "thinking aloud", Hold: hold})
	omp, host, d := attachOMP(t, bridgetest.OMPOptions{Model: model})
	d.verbs = func(hostlink.Request) (any, *hostlink.Error) {
		return hostlink.StatusReply{Address: "http://127.0.0.1:7717/mcp", Name: "app", Main: true}, nil
	}
	writeFile(t, filepath.Join(omp.Dir, "a.txt"), "meanwhile")
	omp.Prompt(t, "go on")
	host.await(t, "busy", func(n notices) bool { return n.state() == hostlink.StateBusy })

	if got := host.call(t, "read", args{"path": "a.txt"}).ok(t); !strings.Contains(got.text(), "meanwhile") {
		t.Errorf("read = %+v", got)
	}
	omp.Prompt(t, "/a2a")
	omp.Notice(t, `a2a: "app" (main)`)
	close(hold)
	host.await(t, "idle", func(n notices) bool { return n.state() == hostlink.StateIdle })
	if !omp.Alive() {
		t.Error("omp has ended")
	}
}

func TestOMPSurvivesEveryKindOfBadDaemon(t *testing.T) {
	t.Parallel()
	path := filepath.Join(bridgetest.SockDir(t), "host.sock")
	omp := bridgetest.StartOMP(t, bridgetest.OMPOptions{HostSocket: path}) // nobody listens yet
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	talk := func(say string) {
		t.Helper()
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(linkPatience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // its hello has begun
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(c, say); err != nil {
			t.Logf("said only a part: %v", err)
		}
	}
	welcome := `{"id":1,"result":{"daemon":"1","protocol":"1.0","address":7,"name":null,"catalogue":"send","resumed":[null,{"callId":1}],"names":[1,{}]}}` + "\n"
	for _, say := range []string{
		"",                                    // closes at once
		"not json\n\n[]\n\x00\xff\n",          // garbage
		`{"id":1,"result":`,                   // cut in the middle of a frame
		`{"id":1,"result":null}` + "\n",       // no welcome
		`{"id":1,"error":null}` + "\n",        // no error
		`{"id":1,"error":{"kind":[]}}` + "\n", // odd error
		welcome + `{"id":5,"method":"call","params":{"callId":"c_1","tool":"bash","args":{"command":"sleep 60"}}}` + "\n" +
			`{"id":5,"method":"cancel"}` + "\n" + `{"method":"you","params":{"peers":{"a":1}}}` + "\n",
		strings.Repeat("x", 1<<20), // a long line without an end
	} {
		talk(say)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}

	d := newLinkDaemon(t)
	d.path = path
	host := d.start(t).host(t)
	host.call(t, "bash", args{"command": "echo still here"}).ok(t)
	if !omp.Alive() {
		t.Error("omp has ended")
	}
}

// eventProbe writes what this extension's twin sees: how often it is loaded, and which sessions start and end.
const eventProbe = `
import * as fs from "node:fs";
const log = (line) => fs.appendFileSync(process.env.HOME + "/events", line + "\n");
export default function (pi) {
  log("factory");
  for (const name of ["session_start", "session_shutdown", "session_switch"]) pi.on(name, (_e, ctx) => log(name + " " + ctx.mode));
}`

func events(t *testing.T, omp *bridgetest.OMP) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(omp.Home, "events"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOMPSubAgentEndingChangesNothing(t *testing.T) {
	t.Parallel()
	// omp loads extensions again for each sub-agent, and tells them of its session's start and end.
	model := bridgetest.StartFakeModel(t,
		bridgetest.ModelStep{Tool: "task", Args: args{"agent": "task", "task": "say done"}},
		bridgetest.ModelStep{Tool: "yield", Args: args{"data": "done"}},
		bridgetest.ModelStep{Text: "the sub-agent is done"},
		bridgetest.ModelStep{Text: "the sub-agent is done"},
	)
	omp, host, d := attachOMP(t, bridgetest.OMPOptions{Model: model, Extensions: []string{eventProbe}})
	host.catalogue(t)
	omp.Prompt(t, "use a sub-agent")
	bridgetest.Eventually(t, "a sub-agent starts", func() bool { return strings.Count(events(t, omp), "session_start") == 2 })
	host.await(t, "idle again", func(n notices) bool { return n.state() == hostlink.StateIdle })
	if got := events(t, omp); strings.Count(got, "factory") < 2 {
		t.Errorf("this omp does not load extensions for sub-agents any more: %s", got)
	}
	host.call(t, "bash", args{"command": "echo still Main"}).ok(t)
	select {
	case other := <-d.hosts:
		t.Errorf("a second host attached: %+v", other.hello)
	case <-host.ended:
		t.Error("the link ended")
	default:
	}
	for _, s := range host.told().states {
		if s.Session.ID != host.hello.Session.ID {
			t.Errorf("the host said it is in the session %q, it began in %q", s.Session.ID, host.hello.Session.ID)
		}
	}
}

func TestOMPNewSessionKeepsTheLink(t *testing.T) {
	t.Parallel()
	omp, host, d := attachOMP(t, bridgetest.OMPOptions{})
	writeFile(t, filepath.Join(omp.Dir, "a.txt"), "after the switch")
	running := host.call(t, "bash", args{"command": "sleep 300"})
	running.heardEvent(t, "accepted")

	omp.Send(t, map[string]any{"type": "new_session"})
	host.await(t, "the new session", func(n notices) bool {
		return len(n.states) > 0 && n.states[len(n.states)-1].Session.ID != host.hello.Session.ID
	})
	if got := host.call(t, "read", args{"path": "a.txt"}).ok(t); !strings.Contains(got.text(), "after the switch") {
		t.Errorf("read = %+v", got)
	}
	// omp ends the commands of the session that it leaves; the call has its one answer all the same
	if got := running.ok(t); !got.IsError || !strings.Contains(got.text(), "cancelled") {
		t.Errorf("the call that was running: %+v", got)
	}
	if n := host.told(); len(d.hosts) > 0 || len(n.tools) != 1 {
		t.Errorf("%d further links, the catalogue was sent %d times", len(d.hosts), len(n.tools))
	}
}

// reloadProbe reloads the session, as a plugin manager does.
const reloadProbe = `
export default function (pi) {
  pi.registerCommand("again", { handler: async (_args, ctx) => { await ctx.reload(); ctx.ui.notify("reloaded"); } });
}`

func TestOMPSwitchBranchAndReloadKeepTheLink(t *testing.T) {
	t.Parallel()
	model := bridgetest.StartFakeModel(t, bridgetest.ModelStep{Text: "one"}, bridgetest.ModelStep{Text: "two"})
	omp, host, d := attachOMP(t, bridgetest.OMPOptions{Model: model, Extensions: []string{reloadProbe}})
	response := func(command map[string]any) bridgetest.Frame {
		t.Helper()
		omp.Send(t, command)
		return omp.Await(t, fmt.Sprint(command), func(f bridgetest.Frame) bool {
			return f.Text("type") == "response" && f.Text("command") == command["type"]
		})
	}
	data := func(f bridgetest.Frame) map[string]any {
		t.Helper()
		m, ok := f["data"].(map[string]any)
		if !ok {
			t.Fatalf("response %v", f)
		}
		return m
	}
	works := func(after string) {
		t.Helper()
		if got := host.call(t, "bash", args{"command": "echo here"}).ok(t); !strings.Contains(got.text(), "here") {
			t.Errorf("after %s: %+v", after, got)
		}
	}

	omp.Prompt(t, "a turn, so that there is something to go back to")
	omp.Await(t, "the end of the turn", func(f bridgetest.Frame) bool { return f.Text("type") == "agent_end" })
	first := data(response(map[string]any{"type": "get_state"}))
	messages, _ := data(response(map[string]any{"type": "get_branch_messages"}))["messages"].([]any)
	if len(messages) == 0 {
		t.Fatal("no message to branch from")
	}

	response(map[string]any{"type": "new_session"})
	works("new")
	response(map[string]any{"type": "switch_session", "sessionPath": first["sessionFile"]})
	host.await(t, "the session it began in", func(n notices) bool {
		return len(n.states) > 0 && n.states[len(n.states)-1].Session.ID == host.hello.Session.ID
	})
	works("resume")
	response(map[string]any{"type": "branch", "entryId": messages[0].(map[string]any)["entryId"]})
	works("branch")
	omp.Prompt(t, "/again")
	omp.Notice(t, "reloaded")
	works("reload")
	if len(d.hosts) > 0 || !omp.Alive() {
		t.Error("the link did not last")
	}
}

func TestOMPDownloadsNothingForTheExtension(t *testing.T) {
	t.Parallel()
	// bun installs what it cannot resolve, at run time and from the network.
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{})
	host.call(t, "bash", args{"command": "true"}).ok(t)
	omp.CloseInput()
	omp.AwaitExit(t)
	err := filepath.WalkDir(filepath.Join(omp.Home, ".bun"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "package.json") {
			t.Errorf("downloaded: %s", path)
		}
		return nil // most often the directory is not there at all
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOMPConversationNeverCrossesTheLink(t *testing.T) {
	t.Parallel()
	// The event at the end of a turn carries the whole conversation, and so do others.
	model := bridgetest.StartFakeModel(t,
		bridgetest.ModelStep{Text: "my first secret answer"},
		bridgetest.ModelStep{Tool: "bash", Args: args{"command": "echo secret output"}},
		bridgetest.ModelStep{Text: "my second secret answer"},
	)
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{Model: model})
	for turn := 1; turn <= 2; turn++ {
		omp.Prompt(t, fmt.Sprintf("secret question %d", turn))
		omp.Await(t, "the end of the turn", func(f bridgetest.Frame) bool { return f.Text("type") == "agent_end" })
	}
	host.await(t, "two turns", func(n notices) bool {
		var changes []string
		for _, s := range n.states {
			changes = append(changes, s.State)
		}
		return strings.Join(changes, " ") == "busy idle busy idle"
	})
	// The host must have sent all it would: a call's answer comes after it.
	host.call(t, "bash", args{"command": "true"}).ok(t)
	if strings.Contains(host.sent(), "secret") {
		t.Error("words of the conversation crossed the link")
	}
}

func TestOMPSaysByeWhenItsUserLeaves(t *testing.T) {
	t.Parallel()
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{})
	child := host.call(t, "bash", args{"command": "sh -c 'echo $$ > child; exec sleep 300'"})
	pid := awaitPID(t, filepath.Join(omp.Dir, "child"))
	omp.CloseInput()
	n := host.await(t, "a bye", func(n notices) bool { return len(n.byes) > 0 })
	if got := n.byes[0].Reason; got != hostlink.ByeClosed {
		t.Errorf("reason %q", got)
	}
	if code := omp.AwaitExit(t); code != 0 {
		t.Errorf("omp ended with %d", code)
	}
	<-host.ended
	<-child.done
	bridgetest.Eventually(t, "the command has ended with its omp", func() bool { return !bridgetest.ProcessAlive(pid) })
}
