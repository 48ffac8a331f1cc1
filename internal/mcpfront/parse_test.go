package mcpfront

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseKeepsBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, id, method, args, token string }{
		{"big id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}`, `9007199254740993`, "m", "", ""},
		{"odd numbers", `{"jsonrpc":"2.0","id":-1.50E+02,"method":"m"}`, `-1.50E+02`, "m", "", ""},
		{"escaped id", `{"jsonrpc":"2.0","id":"\u0041\/","method":"m"}`, `"\u0041\/"`, "m", "", ""},
		{"empty id", `{"jsonrpc":"2.0","id":"","method":"m"}`, `""`, "m", "", ""},
		{"escaped keys", `{"json\u0072pc":"2.0","\u0069d":1,"method":"\u006d","params":{"arguments":{"a":1.0}}}`, `1`, "m", `{"a":1.0}`, ""},
		{"white space", " {\n\"jsonrpc\" : \"2.0\" , \"id\" :\t1 , \"method\" : \"m\" , \"params\" : { \"arguments\" : { \"a\" : [ 1 , { } ] } , \"_meta\" : { \"progressToken\" : \"t\" } } } \r\n", `1`, "m", `{"a":[1,{}]}`, `"t"`},
		{"brackets in strings", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":"}],\"{","arguments":{"\\":"\""}}}`, `1`, "m", `{"\\":"\""}`, ""},
		{"progress token that is none", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":null}}}`, `1`, "m", "", ""},
	} {
		m, fault := parse([]byte(tt.body))
		if fault != nil {
			t.Errorf("%s: %v", tt.name, fault.message)
			continue
		}
		got := []string{string(m.id), m.method, string(compact(m.fields.get("arguments"))), string(m.progressToken())}
		if diff := cmp.Diff([]string{tt.id, tt.method, tt.args, tt.token}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestMembersFindsEveryDoubleKey(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, manyMembers - 1, manyMembers, manyMembers + 1, 1000} {
		var o object
		for i := range n {
			o = append(o, member{strings.Repeat("k", i), json.RawMessage("1")})
		}
		if got, err := members(o.bytes()); err != nil || len(got) != n {
			t.Errorf("members of %d keys = %d, %v", n, len(got), err)
		}
		for _, again := range []int{0, n - 1} {
			if _, err := members(append(o, o[again]).bytes()); err == nil {
				t.Errorf("of %d keys the one at %d occurs twice and is not found", n, again)
			}
		}
	}
}

// FuzzParse: what parse accepts is valid, unambiguous and cut at the right
// places.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", " ", "{}", "[]", "null", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"n":1e400},"_meta":{"progressToken":7}}}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, `{"jsonrpc":"2.0","result":{},"id":3}`, `{"jsonrpc":"2.0","method":"n"} x`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ud800","b":"}\\"}}`, `[{"jsonrpc":"2.0"}]`, strings.Repeat("[", 600), `{"a":"`, `{"a":tru}`, "{\"\xff\":1}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, fault := parse(body)
		if fault != nil {
			if fault.status < 400 || fault.message == "" {
				t.Fatalf("parse(%q) = %+v", body, fault)
			}
			return
		}
		var std struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(body, &std); err != nil {
			t.Fatalf("parse took %q: %v", body, err)
		}
		var all map[string]json.RawMessage
		_ = json.Unmarshal(body, &all)
		if string(all["id"]) != string(m.id) || string(all["params"]) != string(m.params) {
			t.Fatalf("parse(%q): id %q params %q, want %q %q", body, m.id, m.params, all["id"], all["params"])
		}
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(m.params, &fields)
		if len(fields) != len(m.fields) {
			t.Fatalf("parse(%q): %d fields, want %d", body, len(m.fields), len(fields))
		}
		for k, v := range fields {
			if string(m.fields.get(k)) != string(v) {
				t.Fatalf("parse(%q): field %q = %q, want %q", body, k, m.fields.get(k), v)
			}
		}
	})
}

// FuzzSealed: only what was sealed opens, and it opens to what it was.
func FuzzSealed(f *testing.F) {
	key := []byte(strings.Repeat("k", minKey))
	sessions, events := newSealer(key, "mcp session"), newSealer(key, "mcp event")
	good := sessions.seal([]byte("t_1"), []byte("app"), nil)
	f.Add(good, "t", "h", "")
	f.Add("", "", "", "")
	f.Add("AQ", "a", "b", "c")
	f.Add(good[:len(good)-1]+"A", "a", "b", "c")
	f.Fuzz(func(t *testing.T, foreign, a, b, c string) {
		if _, ok := sessions.open(foreign, 3); ok && foreign != good {
			t.Fatalf("open(%q) of a foreign text", foreign)
		}
		if _, ok := openEvent(events, foreign); ok {
			t.Fatalf("openEvent(%q) of a foreign text", foreign)
		}
		if len(a)+len(b)+len(c) > maxSealed/2 {
			return
		}
		sealed := sessions.seal([]byte(a), []byte(b), []byte(c))
		got, ok := sessions.open(sealed, 3)
		if !ok || string(got[0]) != a || string(got[1]) != b || string(got[2]) != c {
			t.Fatalf("open(seal(%q, %q, %q)) = %q, %v", a, b, c, got, ok)
		}
		if _, ok := events.open(sealed, 3); ok {
			t.Fatal("a session id opens as an event id")
		}
		if _, ok := sessions.open(sealed, 2); ok {
			t.Fatal("three fields open as two")
		}
	})
}
