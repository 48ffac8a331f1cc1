package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// seen is what a client saw; clients/sdk.mjs prints the same.
type seen struct {
	Revision   string          `json:"revision"`
	Tools      []string        `json:"tools"`
	Schema     json.RawMessage `json:"schema"`
	Echo       string          `json:"echo"`
	Blocks     []string        `json:"blocks"`
	Failed     []any           `json:"failed"`
	Unknown    []any           `json:"unknown"`
	Progressed string          `json:"progressed"`
	Progress   []float64       `json:"progress"`
	Parallel   []string        `json:"parallel"`
	Cancelled  string          `json:"cancelled"`
	Hangs      string          `json:"hangs"`
	After      string          `json:"after"`
}

// wantSeen is what every client must see.
func wantSeen(revision string) seen {
	return seen{
		Revision: revision,
		Tools: []string{"echo", "hang", "hangs", "json_schema_2020_12_tool", "test_audio_content", "test_embedded_resource",
			"test_error_handling", "test_image_content", "test_multiple_content_types", "test_reconnection", "test_simple_text",
			"test_tool_with_progress"},
		Schema:     json.RawMessage(schema2020),
		Echo:       "grüße 🎈 <&>\u2028",
		Blocks:     []string{"text", "image", "resource"},
		Failed:     []any{true, errorText},
		Unknown:    []any{true, "no"},
		Progressed: "Progress was reported.",
		Progress:   []float64{1, 2, 3},
		Parallel: []string{"parallel 0", "parallel 1", "parallel 2", "parallel 3", "parallel 4", "parallel 5", "parallel 6",
			"parallel 7", "parallel 8", "parallel 9"},
		Cancelled: "threw",
		Hangs:     "begun 1, cancelled 1",
		After:     "still here",
	}
}

// diffSeen compares documents: schemas as JSON values, the names of tools in any order.
func diffSeen(want, got seen) string {
	asValue := cmp.Transformer("json", func(raw json.RawMessage) any {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return string(raw)
		}
		return v
	})
	return cmp.Diff(want, got, asValue, cmpopts.SortSlices(func(a, b string) bool { return a < b }))
}

func TestTypeScriptSDKListsCallsProgressesAndCancels(t *testing.T) {
	t.Parallel()
	tools := bridgetest.Tools(t)
	for _, tc := range []struct{ generation, era, revision string }{
		{"v1", "legacy", "2025-11-25"},
		{"v2", "legacy", "2025-11-25"},
		{"v2", "modern", "2026-07-28"},
	} {
		t.Run(tc.generation+" "+tc.era, func(t *testing.T) {
			t.Parallel()
			b := startFixture(t)
			dir := t.TempDir()
			script, err := os.ReadFile("clients/sdk.mjs")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "sdk.mjs")
			if err := os.WriteFile(path, script, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(tools.NodeModules, filepath.Join(dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			env := clientEnv(t.TempDir(), tools, "TOKEN="+token(t, b, "typescript"))
			out := run(t, env, tools.Node, path, tc.generation, tc.era, b.URL)
			var got seen
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("the client printed %q: %v", out, err)
			}
			if diff := diffSeen(wantSeen(tc.revision), got); diff != "" {
				t.Errorf("the client saw something else (-want +got):\n%s", diff)
			}
		})
	}
}
