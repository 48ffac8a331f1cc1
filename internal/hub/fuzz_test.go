package hub_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

func FuzzAnyCatalogueGivesAListThatClientsCanRead(f *testing.F) {
	f.Add([]byte(`{"hash":"h","tools":[{"name":"a","tier":"read","definition":{"name":"a","inputSchema":{"type":"object"}}}]}`))
	f.Add([]byte(`{"tools":[{"name":"a","definition":{"name":"a","inputSchema":null}},{"name":"a"},null,7]}`))
	f.Add([]byte(`{"tools":[{"name":"a","definition":{"name":"a" } }]}`))
	f.Add([]byte(`{"tools":{}}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		_, tools, _, err := hub.DecodeTools(params)
		if err != nil {
			return
		}
		valid, _ := hub.Validate(tools)
		seen := map[string]bool{}
		for _, tl := range valid {
			var d struct {
				Name        string
				InputSchema struct{ Type string }
			}
			if err := json.Unmarshal(tl.Definition, &d); err != nil || d.Name != tl.Name || d.InputSchema.Type != "object" || seen[tl.Name] {
				t.Errorf("listed %q: %s (%v)", tl.Name, tl.Definition, err)
			}
			seen[tl.Name] = true
		}
	})
}

func FuzzTopLevelTrueAgreesWithDecoding(f *testing.F) {
	for _, s := range []string{`{"isError":true}`, `{"isError": true }`, `{"a":{"isError":true}}`, `{"a":"isError","b":true}`, `{"isError":false}`, `{"a":"\"isError\":true"}`, `["isError",true]`, `{"a":["isError"],"isError":true}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := hub.TopLevelTrue(raw, "isError")
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || bytes.Count(raw, []byte("isError")) > 1 || bytes.Contains(raw, []byte(`\`)) {
			return // broken, given twice or written with escapes: any answer will do
		}
		if want := string(fields["isError"]) == "true"; got != want {
			t.Errorf("TopLevelTrue(%s) = %v, want %v", raw, got, want)
		}
	})
}

func FuzzNamesFitIntoAnAddress(f *testing.F) {
	f.Add("app")
	f.Add("../../x y")
	f.Add(strings.Repeat("ü", 100))
	f.Fuzz(func(t *testing.T, s string) {
		name := hub.CleanName(s)
		if len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" || strings.HasPrefix(name, ".") {
			t.Errorf("CleanName(%q) = %q", s, name)
		}
	})
}
