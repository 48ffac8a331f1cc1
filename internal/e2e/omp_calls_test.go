package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

type args map[string]any

// schemaProbe writes omp's own view of its tools to a file.
const schemaProbe = `
import * as fs from "node:fs";
import { toolWireSchema } from "@oh-my-pi/pi-ai/utils/schema";
export default function (pi) {
  pi.registerCommand("schemas", { handler: async () => {
    const all = Object.fromEntries(pi.getAllTools().map((t) => [t.name, { description: t.description, schema: toolWireSchema(t) }]));
    fs.writeFileSync(process.env.HOME + "/schemas.json", JSON.stringify(all));
    fs.renameSync(process.env.HOME + "/schemas.json", process.env.HOME + "/schemas-done.json");
  } });
}`

// toolProbe is a tool that ignores its signal and answers as much as it is asked for.
const toolProbe = `
export default function (pi) {
  pi.registerTool({
    name: "probe", label: "Probe", description: "Answers with so many letters.", approval: "exec",
    parameters: { type: "object", properties: { size: { type: "integer" } }, required: ["size"] },
    execute: async (_id, { size }) => ({ content: [{ type: "text", text: "x".repeat(size) }] }),
  });
}`

// fridayProbe blocks one tool.
const fridayProbe = `
export default function (pi) {
  pi.on("tool_call", (e) => (e.toolName === "glob" ? { block: true, reason: "not on Fridays" } : undefined));
}`

func TestOMPLendsItsToolsUnchanged(t *testing.T) {
	t.Parallel()
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{Extensions: []string{schemaProbe}})
	tools := host.catalogue(t)

	omp.Prompt(t, "/schemas")
	path := filepath.Join(omp.Home, "schemas-done.json")
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
	if len(tools) != len(want) {
		t.Errorf("%d tools are offered, omp has %d", len(tools), len(want))
	}
	for _, name := range []string{"read", "bash", "edit", "write"} {
		if _, ok := tools[name]; !ok {
			t.Errorf("%s is not offered", name)
		}
	}
	for name, tool := range tools {
		var got struct {
			Name, Description string
			InputSchema       json.RawMessage
		}
		if err := json.Unmarshal(tool.Definition, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Name != name || got.Description != want[name].Description || !bytes.Equal(got.InputSchema, want[name].Schema) {
			t.Errorf("%s differs: %s", name, cmp.Diff(string(want[name].Schema), string(got.InputSchema)))
		}
	}
	if got := tools["bash"]; got.Source != "builtin" || got.Tier == bridge.TierRead {
		t.Errorf("bash is %q of tier %q", got.Source, got.Tier)
	}
	if got := tools["glob"]; got.Tier != bridge.TierRead {
		t.Errorf("glob, which omp declares read, has the tier %q", got.Tier)
	}

	h := host.hello
	if h.Kind != "omp" || h.Version != "18.1.16" || h.PID != omp.PID() || !h.Gate || h.CWD != omp.Dir || h.Session.ID == "" || h.State != hostlink.StateIdle {
		t.Errorf("hello: %+v", h)
	}
	if sent := host.told().tools[0].Hash; h.Catalogue != sent || h.Instance == "" {
		t.Errorf("hello announces %q of instance %q; sent %q", h.Catalogue, h.Instance, sent)
	}
}

func TestOMPRunsCalls(t *testing.T) {
	t.Parallel()
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{Vision: true, Extensions: []string{toolProbe}})
	in := func(name string) string { return filepath.Join(omp.Dir, name) }
	writeFile(t, in("a.txt"), "hello from a\n")
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	writeFile(t, in("p.png"), picture.String())

	// One omp, one thing after another: each uses a fraction of what its start takes.
	t.Run("read gives the text of a file", func(t *testing.T) {
		c := host.call(t, "read", args{"path": "a.txt"})
		if got := c.ok(t); got.IsError || !strings.Contains(got.text(), "hello from a") {
			t.Errorf("read = %+v", got)
		}
		if got := c.events; !slices.Equal(got[:1], []string{"accepted"}) {
			t.Errorf("events %q", got)
		}
	})
	t.Run("an image comes as an image", func(t *testing.T) {
		got := host.call(t, "read", args{"path": "p.png"}).ok(t)
		n := slices.IndexFunc(got.Content, func(b struct{ Type, Text, Data, MimeType string }) bool { return b.Type == "image" })
		if n < 0 {
			t.Fatalf("no image in %+v", got)
		}
		data, err := base64.StdEncoding.DecodeString(got.Content[n].Data)
		if err != nil || len(data) == 0 || !strings.HasPrefix(got.Content[n].MimeType, "image/") {
			t.Errorf("%d bytes of %q, %v", len(data), got.Content[n].MimeType, err)
		}
	})
	t.Run("bash tells its progress, new text only", func(t *testing.T) {
		c := host.call(t, "bash", args{"command": "echo one; until [ -e go ]; do sleep 0.05; done; echo two"})
		c.heardEvent(t, "progress one")
		writeFile(t, in("go"), "")
		if got := c.ok(t).text(); !strings.Contains(got, "one\ntwo") {
			t.Errorf("bash = %q", got)
		}
		all := strings.Join(c.events, "|")
		if strings.Count(all, "one") != 1 || strings.Count(all, "two") > 1 {
			t.Errorf("events %q repeat what was sent", all)
		}
	})
	t.Run("a failing command is a result", func(t *testing.T) {
		got := host.call(t, "bash", args{"command": "echo out; exit 3"}).ok(t)
		if !got.IsError || !strings.Contains(got.text(), "code 3") {
			t.Errorf("bash = %+v", got)
		}
	})
	t.Run("a thrown error is a result with omp's words", func(t *testing.T) {
		got := host.call(t, "read", args{"path": "missing.txt"}).ok(t)
		if !got.IsError || !strings.Contains(got.text(), "missing.txt") {
			t.Errorf("read = %+v", got)
		}
	})
	t.Run("unknown tools, also by their aliases", func(t *testing.T) {
		for _, name := range []string{"nope", "xd://bash", "Bash", ""} {
			c := host.call(t, name, args{"command": "touch alias-ran"})
			if name == "" {
				c.refused(t, hostlink.KindBadArguments, bridge.ExecutedNo)
				continue
			}
			c.refused(t, hostlink.KindUnknownTool, bridge.ExecutedNo)
		}
		if exists(in("alias-ran")) {
			t.Error("an alias ran")
		}
	})
	t.Run("four calls at once overlap", func(t *testing.T) {
		var calls []*linkedCall
		for range 4 {
			calls = append(calls, host.call(t, "bash", args{"command": "date +%s%N; sleep 1; date +%s%N"}))
		}
		var lastStart, firstEnd int64 = 0, 1 << 62
		for _, c := range calls {
			times := strings.Fields(c.ok(t).text())
			start, err1 := strconv.ParseInt(times[0], 10, 64)
			end, err2 := strconv.ParseInt(times[1], 10, 64)
			if err1 != nil || err2 != nil {
				t.Fatalf("times %q", times)
			}
			lastStart, firstEnd = max(lastStart, start), min(firstEnd, end)
		}
		if lastStart >= firstEnd {
			t.Errorf("the last began %v after the first had ended", time.Duration(lastStart-firstEnd))
		}
	})
	t.Run("a cancelled command leaves no process", func(t *testing.T) {
		c := host.call(t, "bash", args{"command": "sh -c 'sleep 300 & echo $! > child; echo $$ > shell; wait'"})
		pids := []int{awaitPID(t, in("child")), awaitPID(t, in("shell"))}
		c.cancel(t)
		c.refused(t, hostlink.KindCancelled, bridge.ExecutedUnknown)
		for _, pid := range pids {
			bridgetest.Eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !bridgetest.ProcessAlive(pid) })
		}
	})
	t.Run("output that omp cuts arrives as omp cut it", func(t *testing.T) {
		got := host.call(t, "probe", args{"size": 4 << 20}).ok(t).text()
		if len(got) > 1<<20 || !strings.Contains(got, "artifact://") {
			t.Errorf("%d bytes arrived, ending in %q", len(got), got[max(0, len(got)-200):])
		}
	})
	if !omp.Alive() {
		t.Error("omp has ended")
	}
}

func awaitPID(t *testing.T, path string) int {
	t.Helper()
	var pid int
	bridgetest.Eventually(t, "a process id in "+filepath.Base(path), func() bool {
		data, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	return pid
}

func TestOMPApprovalPolicies(t *testing.T) {
	t.Parallel()
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{
		Tools:      "{ approvalMode: always-ask, approval: { write: deny, bash: prompt, read: allow } }",
		Extensions: []string{toolProbe, fridayProbe},
	})
	ran := func(name string) bool { return exists(filepath.Join(omp.Dir, name)) }
	touch := func(name string) args { return args{"command": "touch " + name} }
	writeFile(t, filepath.Join(omp.Dir, "a.txt"), "allowed")

	t.Run("allow", func(t *testing.T) {
		if got := host.call(t, "read", args{"path": "a.txt"}).ok(t); !strings.Contains(got.text(), "allowed") {
			t.Errorf("read = %+v", got)
		}
	})
	t.Run("deny", func(t *testing.T) {
		got := host.call(t, "write", args{"path": "w.txt", "content": "x"}).refused(t, hostlink.KindDenied, bridge.ExecutedNo)
		if !strings.Contains(got, `Tool "write" is blocked by user policy`) || ran("w.txt") {
			t.Errorf("message %q, ran %v", got, ran("w.txt"))
		}
	})
	t.Run("blocked by another extension", func(t *testing.T) {
		if got := host.call(t, "glob", args{"path": "*"}).refused(t, hostlink.KindDenied, bridge.ExecutedNo); got != "not on Fridays" {
			t.Errorf("message %q", got)
		}
	})
	t.Run("prompt, answered yes", func(t *testing.T) {
		c := host.call(t, "bash", touch("yes"))
		id := omp.Dialog(t, "touch yes")
		c.heardEvent(t, "approval pending")
		omp.Answer(t, id, "Approve")
		c.ok(t)
		if want := []string{"accepted", "approval pending", "approval approved"}; !ran("yes") || !slices.Equal(c.events[:3], want) {
			t.Errorf("ran %v, events %q", ran("yes"), c.events)
		}
	})
	t.Run("prompt, answered no", func(t *testing.T) {
		c := host.call(t, "bash", touch("no"))
		omp.Answer(t, omp.Dialog(t, "touch no"), "Deny")
		got := c.refused(t, hostlink.KindDenied, bridge.ExecutedNo)
		if want := []string{"accepted", "approval pending", "approval denied"}; got != "Tool call denied by user: bash" || !slices.Equal(c.events, want) || ran("no") {
			t.Errorf("message %q, events %q, ran %v", got, c.events, ran("no"))
		}
	})
	t.Run("prompt, never answered", func(t *testing.T) {
		c := host.call(t, "bash", touch("never"), approvalLimit(300*time.Millisecond))
		id := omp.Dialog(t, "touch never")
		c.refused(t, hostlink.KindNotApproved, bridge.ExecutedNo)
		// A late yes finds the signal aborted.
		omp.Answer(t, id, "Approve")
		barrier(t, omp, host)
		if lates := host.told().lates; ran("never") || len(lates) > 0 {
			t.Errorf("ran %v, lates %+v", ran("never"), lates)
		}
	})
	t.Run("a tool that ignores its signal and runs late is reported, once", func(t *testing.T) {
		c := host.call(t, "probe", args{"size": 1}, approvalLimit(300*time.Millisecond))
		id := omp.Dialog(t, "Allow tool: probe")
		c.refused(t, hostlink.KindNotApproved, bridge.ExecutedNo)
		omp.Answer(t, id, "Approve")
		n := host.await(t, "a late notice", func(n notices) bool { return len(n.lates) > 0 })
		if want := []hostlink.Late{{CallID: c.callID}}; !slices.Equal(n.lates, want) {
			t.Errorf("lates %+v, want %+v", n.lates, want)
		}
	})
	t.Run("cancelled while asking", func(t *testing.T) {
		c := host.call(t, "bash", touch("cancelled"))
		id := omp.Dialog(t, "touch cancelled")
		c.heardEvent(t, "approval pending")
		c.cancel(t)
		c.refused(t, hostlink.KindCancelled, bridge.ExecutedNo)
		omp.Answer(t, id, "Approve")
		barrier(t, omp, host)
		if ran("cancelled") {
			t.Error("it ran")
		}
	})
	t.Run("several at once, answered apart", func(t *testing.T) {
		a, b := host.call(t, "bash", touch("first")), host.call(t, "bash", touch("second"))
		first, second := omp.Dialog(t, "touch first"), omp.Dialog(t, "touch second")
		omp.Answer(t, second, "Approve")
		b.ok(t)
		omp.Answer(t, first, "Deny")
		a.refused(t, hostlink.KindDenied, bridge.ExecutedNo)
		if ran("first") || !ran("second") {
			t.Error("the answers went to the wrong calls")
		}
	})
}

// barrier returns when omp has worked on everything that was sent before: an approved call has run to its end since.
func barrier(t *testing.T, omp *bridgetest.OMP, host *linkedHost) {
	t.Helper()
	c := host.call(t, "bash", args{"command": "sleep 0.2; echo passed"})
	omp.Answer(t, omp.Dialog(t, "echo passed"), "Approve")
	c.ok(t)
}
