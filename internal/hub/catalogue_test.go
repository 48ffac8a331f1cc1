package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

func names(c *bridge.Catalogue) []string {
	out := []string{}
	for _, t := range c.Tools {
		out = append(out, t.Name)
	}
	return out
}

func defined(name, definition string) bridge.Tool {
	return bridge.Tool{Name: name, Tier: bridge.TierRead, Definition: json.RawMessage(definition)}
}

func TestABadToolIsLeftOutAndNamed(t *testing.T) {
	t.Parallel()
	def := func(name, rest string) string { return fmt.Sprintf(`{"name":%q%s}`, name, rest) }
	long := strings.Repeat("n", 129)
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	for _, tt := range []struct {
		name string
		tool bridge.Tool
		want string // the listed definition; empty: left out
		why  string
	}{
		{"good", defined("t", def("t", `,"inputSchema":{"type":"object"}`)), def("t", `,"inputSchema":{"type":"object"}`), ""},
		{"no schema", defined("t", def("t", ``)), `{"name":"t","inputSchema":{"type":"object"}}`, ""},
		{"null schema", defined("t", def("t", `,"inputSchema":null`)), `{"inputSchema":{"type":"object"},"name":"t"}`, ""},
		{"odd but printable name", defined("fs/read file:ü", def("fs/read file:ü", `,"inputSchema":{"type":"object"}`)), def("fs/read file:ü", `,"inputSchema":{"type":"object"}`), ""},
		{"no name", defined("", def("", ``)), "", "it has no name"},
		{"long name", defined(long, def(long, ``)), "", "its name has 129 characters, more than 128"},
		{"control character", defined("a\x1b[2J", `{}`), "", "its name has a control character"},
		{"definition of another tool", defined("t", def("u", ``)), "", "its definition has another name"},
		{"array for a definition", defined("t", `[]`), "", "its definition is not a JSON object"},
		{"schema of another type", defined("t", def("t", `,"inputSchema":{"type":"string"}`)), "", `its input schema is not of type "object"`},
		{"schema that is a string", defined("t", def("t", `,"inputSchema":"object"`)), "", "its input schema is not a JSON object"},
		{"boolean schema", defined("t", def("t", `,"inputSchema":true`)), "", "its input schema is not a JSON object"},
		{"bad output schema", defined("t", def("t", `,"outputSchema":[]`)), "", "its output schema is not a JSON object"},
		{"number for a description", defined("t", def("t", `,"description":7`)), "", "its description has the wrong type"},
		{"string for annotations", defined("t", def("t", `,"annotations":"x"`)), "", "its annotations has the wrong type"},
		{"nested too deeply", defined("t", def("t", `,"inputSchema":`+deep)), "", "its definition is nested deeper than 64 levels"},
		{"huge", defined("t", def("t", `,"description":"`+strings.Repeat("x", 300<<10)+`"`)), "", "its definition has 307229 bytes, more than 262144"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.newHost(hostlink.Hello{Kind: "omp", CWD: "/app"}, echo)
			s.SetTools([]bridge.Tool{tool("first"), tt.tool, tool("last")})
			var c *bridge.Catalogue
			r.await("the list", func() bool {
				v, err := r.hub.View("")
				must(t, err)
				c = v.Catalogue
				return len(c.Tools) >= 2 && c.Tools[len(c.Tools)-1].Name == "last"
			})
			if tt.want != "" {
				if len(c.Tools) != 3 || string(c.Tools[1].Definition) != tt.want {
					t.Errorf("listed %s, want %s", c.Tools[1].Definition, tt.want)
				}
				return
			}
			if diff := cmp.Diff([]string{"first", "last"}, names(c)); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
			if len(c.Skipped) != 1 || c.Skipped[0].Why != tt.why {
				t.Errorf("skipped %+v, want %q", c.Skipped, tt.why)
			}
		})
	}
}

func TestADuplicateAndAnUnreadableEntryDoNotSpoilTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/app", Catalogue: "x"})
		must(t, err)
		must(t, h.Notify(hostlink.MethodTools, json.RawMessage(
			`{"hash":"h","tools":[{"name":"a","definition":{"name":"a"}},{"name":7},"text",null,{"name":"a","definition":{"name":"a"}},{"name":"b","definition":{"name":"b"}}]}`)))
		r.await("the list", func() bool {
			v, _ := r.hub.View("")
			return len(v.Catalogue.Tools) == 2 && v.Catalogue.Tools[0].Name == "a"
		})
		v, _ := r.hub.View("")
		if len(v.Catalogue.Skipped) != 4 {
			t.Errorf("skipped %+v, want four", v.Catalogue.Skipped)
		}
		must(t, h.Notify(hostlink.MethodTools, json.RawMessage(`{"hash":"h2","tools":"none"}`)))
		<-time.After(time.Second)
		if w, _ := r.hub.View(""); w.Catalogue != v.Catalogue {
			t.Error("a notice that cannot be read changed the list")
		}
	})
}

func TestTheListChangesOnlyWhenTheToolsDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		before, err := r.hub.View("")
		must(t, err)
		if before.Catalogue == nil || len(before.Catalogue.Tools) != 0 || before.Catalogue.Tools == nil {
			t.Errorf("before any host: %+v, want an empty catalogue", before.Catalogue)
		}
		s := r.host("app", echo, "read", "write")
		select {
		case <-before.Changed:
		default:
			t.Error("the first list did not count as a change")
		}
		v, _ := r.hub.View("")
		byName, err := r.hub.View("app")
		must(t, err)
		s.Drop()
		<-time.After(time.Second)
		s.leave()
		r.host("app", echo, "read", "write")
		r.stop()
		r.start()
		r.await("app back", func() bool { return r.hub.Main().Attached })
		select {
		case <-v.Changed:
			t.Error("a change without one")
		case <-byName.Changed:
			t.Error("a change without one, by name")
		default:
		}
		now, _ := r.hub.View("")
		if diff := cmp.Diff(names(v.Catalogue), names(now.Catalogue)); diff != "" || now.Catalogue.Hash != v.Catalogue.Hash {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
	})
}

func TestTheLastListIsKnownWhileTheHostIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := r.host("app", echo, "read", "write", "grep")
		s.leave()
		<-time.After(time.Second)
		r.stop()
		r.start()
		v, err := r.hub.View("")
		must(t, err)
		if diff := cmp.Diff([]string{"read", "write", "grep"}, names(v.Catalogue)); diff != "" || v.Catalogue.Host != "app" {
			t.Errorf("list of %q (-want +got):\n%s", v.Catalogue.Host, diff)
		}
		if o := r.call(request("nope")); o.Kind != bridge.ToolUnavailable || o.Waited > 0 {
			t.Errorf("an unknown tool: %s after %v, want a refusal at once", o.Kind, o.Waited)
		}
	})
}

func TestSettingsHideToolsAndShowThemAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := r.host("app", echo)
		mcp := tool("mcp__github_search")
		mcp.Source = "mcp"
		s.SetTools(append(toolList("read", "write", "bash"), mcp))
		r.await("four tools", func() bool { v, _ := r.hub.View(""); return len(v.Catalogue.Tools) == 4 })
		v, _ := r.hub.View("")
		set := hub.Defaults()
		set.Deny, set.DenyMCPTools = []string{"wri*"}, true
		r.hub.Apply(set)
		<-v.Changed
		v, _ = r.hub.View("")
		if diff := cmp.Diff([]string{"read", "bash"}, names(v.Catalogue)); diff != "" || v.Catalogue.Hidden != 2 {
			t.Errorf("%d hidden, list (-want +got):\n%s", v.Catalogue.Hidden, diff)
		}
		for _, name := range []string{"write", "mcp__github_search"} {
			if o := r.call(request(name)); o.Kind != bridge.ToolUnavailable {
				t.Errorf("a call of hidden %s: %s", name, o.State)
			}
		}
		r.hub.Apply(hub.Defaults())
		<-v.Changed
		if o := r.call(request("write")); o.State != bridge.Done {
			t.Errorf("write, allowed again: %s", o.State)
		}
	})
}

// loopOf is what a host that lists server X has of the tools listed there.
func loopOf(server string, listed []bridge.Tool) []bridge.Tool {
	var out []bridge.Tool
	for _, t := range listed {
		name := strings.ReplaceAll(t.Name, "__", "_") // as omp does
		var d map[string]any
		_ = json.Unmarshal(t.Definition, &d)
		d["name"] = "mcp__" + server + "_" + name
		def, _ := json.Marshal(d)
		out = append(out, bridge.Tool{Name: "mcp__" + server + "_" + name, Tier: "write", Source: "mcp", Definition: def})
	}
	return out
}

func TestABridgeThatSeesItselfStopsTheCircle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		own := toolList("read", "write", "grep")
		s := r.host("app", echo, "read", "write", "grep")
		list := func() []bridge.Tool { v, _ := r.hub.View(""); return v.Catalogue.Tools }
		for range 6 { // the host reads our list and offers it on top of its own
			s.SetTools(append(toolList("read", "write", "grep"), loopOf("self", list())...))
			<-time.After(time.Second)
		}
		v, _ := r.hub.View("")
		if diff := cmp.Diff([]string{"read", "write", "grep"}, names(v.Catalogue)); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
		if len(v.Catalogue.Skipped) != 3 || v.Catalogue.Skipped[0] != (bridge.Skipped{Name: "mcp__self_read", Why: "comes back from this bridge"}) {
			t.Errorf("skipped %+v", v.Catalogue.Skipped)
		}
		// The next omp in that directory does not start it again.
		s.leave()
		r.stop()
		r.start()
		v, _ = r.hub.View("")
		s = r.host("app", echo, "read", "write", "grep")
		s.SetTools(append(own, loopOf("self", list())...))
		<-time.After(time.Second)
		select {
		case <-v.Changed:
			t.Error("the list changed for a circle that is known")
		default:
		}
	})
}

func TestToolsOfAnotherMachineWithTheSameOmpAreListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := r.host("app", echo, "read", "write")
		own := append(toolList("read", "write"), loopOf("github", toolList("search"))...)
		other := loopOf("workbench", own) // which uses the same servers
		s.SetTools(append(own, other...))
		for range 3 {
			<-time.After(time.Second)
			s.SetTools(append(own, other...))
		}
		v, _ := r.hub.View("")
		if want := len(own) + len(other); len(v.Catalogue.Tools) != want || len(v.Catalogue.Skipped) != 0 {
			t.Errorf("%d tools listed, want %d; skipped %+v", len(v.Catalogue.Tools), want, v.Catalogue.Skipped)
		}
	})
}

func TestTwoBridgesWhoseHostsUseEachOtherStopTheCircle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rigs := map[string]*rig{"here": newRig(t), "there": newRig(t)}
		hosts := map[string]*scripted{}
		list := func(at string) []bridge.Tool { v, _ := rigs[at].hub.View(""); return v.Catalogue.Tools }
		for at, r := range rigs {
			hosts[at] = r.host("app", echo, "read", "write")
		}
		for range 8 {
			for at, far := range map[string]string{"here": "there", "there": "here"} {
				hosts[at].SetTools(append(toolList("read", "write"), loopOf(far, list(far))...))
				<-time.After(time.Second)
			}
		}
		for at := range rigs {
			if n := len(list(at)); n > 8 {
				t.Errorf("%s lists %d tools and counting: %q", at, n, list(at)[n-1].Name)
			}
		}
	})
}

func TestACatalogueIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.newHost(hostlink.Hello{Kind: "omp", CWD: "/app"}, echo)
	var many []bridge.Tool
	for i := range 2500 {
		many = append(many, tool(fmt.Sprintf("tool%d", i)))
	}
	s.SetTools(many)
	r.await("the list", func() bool { v, _ := r.hub.View(""); return len(v.Catalogue.Tools) > 2 })
	v, _ := r.hub.View("")
	if len(v.Catalogue.Tools) != 2048 || len(v.Catalogue.Skipped) != 257 || v.Catalogue.Skipped[256].Why != "and 196 more" {
		t.Errorf("%d tools, %d skipped", len(v.Catalogue.Tools), len(v.Catalogue.Skipped))
	}
}
