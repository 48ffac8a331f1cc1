package mcpfront

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

func TestDefinitionChangesOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	const schema = `"inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","z":1.0,"a":9007199254740993,"properties":{"<&>":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}}`
	for _, tt := range []struct {
		name, in, want string
		tier           bridge.Tier
	}{
		{"nothing to change", `{"name":"t",` + schema + `,"later":{"k":[1]}}`, `{"name":"t",` + schema + `,"later":{"k":[1]}}`, ""},
		{"white space", "{ \"name\" : \"t\",\r\n " + schema + " }", `{"name":"t",` + schema + `}`, ""},
		{"no schema", `{"name":"t"}`, `{"name":"t","inputSchema":{"type":"object"}}`, ""},
		{"schema null", `{"name":"t","inputSchema":null}`, `{"name":"t","inputSchema":{"type":"object"}}`, ""},
		{"reads", `{"name":"t","inputSchema":{}}`, `{"name":"t","inputSchema":{},"annotations":{"readOnlyHint":true}}`, "read"},
		{"reads and says so", `{"name":"t","annotations":{"readOnlyHint":true},"inputSchema":{}}`, `{"name":"t","annotations":{"readOnlyHint":true},"inputSchema":{}}`, "read"},
		{"reads and denies it", `{"name":"t","annotations":{"readOnlyHint":false,"title":"T"},"inputSchema":{}}`, `{"name":"t","annotations":{"readOnlyHint":true,"title":"T"},"inputSchema":{}}`, "read"},
		{"claims to read", `{"name":"t","annotations":{"title":"T","readOnlyHint":true,"x":1},"inputSchema":{}}`, `{"name":"t","annotations":{"title":"T","x":1},"inputSchema":{}}`, "write"},
		{"annotations that are none", `{"name":"t","annotations":7,"inputSchema":{}}`, `{"name":"t","annotations":{"readOnlyHint":true},"inputSchema":{}}`, "read"},
		{"header annotation", `{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"},"b":{"anyOf":[{"x-mcp-header":"","type":"string"}]}}}}`,
			`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"object"},"b":{"anyOf":[{"type":"string"}]}}}}`, ""},
		{"property of that name", `{"name":"t","inputSchema":{"properties":{"x-mcp-header":{"type":"string","default":{"x-mcp-header":1}}}}}`,
			`{"name":"t","inputSchema":{"properties":{"x-mcp-header":{"type":"string","default":{"x-mcp-header":1}}}}}`, ""},
	} {
		got, err := definition(bridge.Tool{Name: "t", Tier: tt.tier, Definition: json.RawMessage(tt.in)})
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tt.name, err, got, tt.want)
		}
	}
}

func TestOneBadToolDoesNotSpoilTheList(t *testing.T) {
	t.Parallel()
	l := listings{server: json.RawMessage(`{}`), log: slog.New(slog.DiscardHandler)}
	cat := &bridge.Catalogue{Hash: "1"}
	for _, def := range []string{``, `nope`, `[]`, `{"name":`, `{"name":"a","name":"b"}`,
		`{"name":"deep","x":` + string(bytes.Repeat([]byte("["), 600)) + string(bytes.Repeat([]byte("]"), 600)) + `}`, `{"name":"good"}`} {
		cat.Tools = append(cat.Tools, bridge.Tool{Name: "t", Definition: json.RawMessage(def)})
	}
	got := l.of(cat, bridge.Peer{})
	if want := `{"tools":[{"name":"good","inputSchema":{"type":"object"}}]}`; string(got.legacy) != want {
		t.Errorf("list = %s, want %s", got.legacy, want)
	}
	if !json.Valid(got.modern) {
		t.Errorf("the modern list is not JSON: %s", got.modern)
	}
}

func TestListsDependOnGlobsAndAreKept(t *testing.T) {
	t.Parallel()
	l := listings{server: json.RawMessage(`{}`), log: slog.New(slog.DiscardHandler)}
	cat := &bridge.Catalogue{Hash: "1", Tools: []bridge.Tool{
		{Name: "read", Definition: json.RawMessage(`{"name":"read"}`)}, {Name: "bash", Definition: json.RawMessage(`{"name":"bash"}`)}}}
	all, some := l.of(cat, bridge.Peer{}), l.of(cat, bridge.Peer{Tools: []string{"r*"}})
	if all == some || all.hash == some.hash || bytes.Contains(some.legacy, []byte("bash")) {
		t.Errorf("a token with globs sees %s", some.legacy)
	}
	if again := l.of(cat, bridge.Peer{}); again != all {
		t.Error("the list was made twice")
	}
	// A change that a peer cannot see is none for it.
	wider := &bridge.Catalogue{Hash: "2", Tools: append(cat.Tools, bridge.Tool{Name: "edit", Definition: json.RawMessage(`{"name":"edit"}`)})}
	if l.of(wider, bridge.Peer{}).hash == all.hash || l.of(wider, bridge.Peer{Tools: []string{"r*"}}).hash != some.hash {
		t.Error("hashes do not follow what the peer sees")
	}
	for i := range 10 * maxHosts {
		l.of(&bridge.Catalogue{Host: string(rune('a' + i)), Hash: "1"}, bridge.Peer{})
		l.of(wider, bridge.Peer{Tools: []string{string(rune('a' + i))}})
	}
	if len(l.hosts) > maxHosts || len(l.hosts[""].byGlobs) > maxViews {
		t.Errorf("%d hosts and %d views are kept", len(l.hosts), len(l.hosts[""].byGlobs))
	}
}

func TestEveryKindHasItsRow(t *testing.T) {
	t.Parallel()
	known := map[bridge.Kind]bool{}
	for _, k := range bridge.Kinds() {
		known[k] = true
		row, ok := reasons[k]
		if !ok || row.text == "" || row.executed == "" || row.retry == "" {
			t.Errorf("the kind %q has no row, or an empty one: %+v", k, row)
		}
	}
	for k := range reasons {
		if !known[k] {
			t.Errorf("the row %q is for no kind", k)
		}
	}
}

func TestUnknownAndDeniedToolsLookAlike(t *testing.T) {
	t.Parallel()
	var results []string
	for _, o := range []bridge.Outcome{
		{Call: "c_1", Kind: bridge.ToolUnavailable},
		{Call: "c_1", Kind: bridge.ToolUnavailable, Text: "bash is denied", Executed: bridge.ExecutedUnknown, Retry: bridge.RetrySafe},
	} {
		o, _ = complete(o, "bash")
		results = append(results, string(errorResult(o)))
	}
	if diff := cmp.Diff(results[0], results[1]); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(results[0], `no tool \"bash\" is available here`) {
		t.Errorf("the caller's own word is missing: %s", results[0])
	}
	o, _ := complete(bridge.Outcome{Call: "c_1", Kind: bridge.ToolUnavailable}, strings.Repeat("ä\n", 5000))
	if len(o.Text) > 1000 || strings.Contains(o.Text, "\n") {
		t.Errorf("a long name is shown as %d bytes: %q", len(o.Text), o.Text)
	}
}

func TestWordsOfTheHubPass(t *testing.T) {
	t.Parallel()
	o, _ := complete(bridge.Outcome{Call: "c_1", Kind: bridge.CancelledByPeer, Executed: bridge.ExecutedNo, Text: "Not executed: <b>"}, "bash")
	want := `{"content":[{"type":"text","text":"Not executed: <b>"}],"isError":true,"_meta":{"a2a-bridge/call":"c_1","a2a-bridge/executed":"no"}}`
	if got := string(errorResult(o)); got != want {
		t.Errorf("result = %s, want %s", got, want)
	}
}
