package hostlink_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

func TestFramesThatFitNoFormAreRefused(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"empty": "", "text": "hello", "array": "[]", "number": "7", "cut off": `{"id":1,"res`, "two objects": `{"method":"a"}{"method":"b"}`,
		"id alone": `{"id":1}`, "params alone": `{"params":{}}`, "id zero": `{"id":0,"result":1}`, "id below zero": `{"id":-1,"result":1}`,
		"id with a fraction": `{"id":1.0,"result":1}`, "id as text": `{"id":"1","result":1}`, "id null": `{"id":null,"result":1}`,
		"id of 2^53": `{"id":9007199254740992,"result":1}`, "id of many digits": `{"id":` + strings.Repeat("9", 40) + `,"result":1}`,
		"result and error": `{"id":1,"result":1,"error":{}}`, "method and result": `{"id":1,"method":"ping","result":1}`, "params and result": `{"id":1,"result":1,"params":{}}`,
		"method of another type": `{"method":1}`, "method empty": `{"method":""}`, "method too long": `{"method":"` + strings.Repeat("m", 65) + `"}`,
		"a field twice": `{"id":1,"result":1,"result":2}`, "not UTF-8": "{\"method\":\"a\xff\"}", "control character in a string": "{\"method\":\"a\x01\"}",
		"bad escape": `{"method":"a","params":"\x"}`, "bad number": `{"method":"a","params":01}`, "bad word": `{"method":"a","params":nul}`,
		"trailing comma": `{"method":"a",}`, "too deep": `{"method":"a","params":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`,
	} {
		if err := hostlink.ParseFrame([]byte(line)); err == nil {
			t.Errorf("%s: ParseFrame(%.60q) = nil, want an error", name, line)
		} else if strings.Contains(err.Error(), "hello") {
			t.Errorf("%s: the error quotes the line: %v", name, err)
		}
	}
}

func TestFramesOfEveryFormAreRead(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"id":1,"method":"call","params":{}}`, `{"id":9007199254740991,"result":null}`, `{"result":{"a":[1,-2.5e+7,true,false,null,"é\u00e9\\\""]},"id":3}`,
		` { "id" : 1 , "error" : {} } `, `{"method":"you"}`, `{"id":1,"method":"ping","jsonrpc":"2.0","more":{"x":[]}}`,
		`{"method":"a","params":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
	} {
		if err := hostlink.ParseFrame([]byte(line)); err != nil {
			t.Errorf("ParseFrame(%.60q) = %v", line, err)
		}
	}
}

// FuzzParseFrame checks that what we take for a frame is a JSON object to
// encoding/json too, and that no other JSON object is called malformed JSON.
func FuzzParseFrame(f *testing.F) {
	for _, seed := range []string{`{"id":1,"method":"call","params":{"args":{"n":9007199254740993}}}`, `{"id":1,"result":{"content":[]}}`,
		`{"id":1,"error":{"kind":"fault"}}`, `{"method":"fault"}`, `{"a":"\ud83d\u00e9\n"}`, "{\"a\":\"\xff\"}", `[{}]`, `{"a":-0.1e+3}`, `{"a":1`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if hostlink.ParseFrame(line) == nil && !json.Valid(line) {
			t.Fatalf("ParseFrame(%q) = nil, and it is no JSON", line)
		}
		keys := 0
		err := hostlink.EachField(line, func(_, value []byte) error {
			keys++
			if !json.Valid(value) {
				t.Fatalf("EachField(%q) gave %q", line, value)
			}
			return nil
		})
		trimmed := bytes.TrimLeft(line, " \t\r\n")
		isObject := json.Valid(line) && utf8.Valid(line) && len(trimmed) > 0 && trimmed[0] == '{'
		if (err == nil) != isObject {
			t.Fatalf("EachField(%q) = %v, but encoding/json says %v", line, err, isObject)
		}
	})
}

// FuzzLineReader checks the reader against a plain split, for lines on both
// sides of the limit and of its buffer.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), uint16(2), uint16(1))
	f.Add(bytes.Repeat([]byte("x"), 300), uint16(100), uint16(400))
	f.Add([]byte("\n\n"), uint16(0), uint16(1))
	f.Fuzz(func(t *testing.T, data []byte, limit, repeat uint16) {
		data = bytes.Repeat(data, min(int(repeat), 1+(1<<18)/(len(data)+1)))
		lines := bytes.Split(data, []byte("\n"))
		r := hostlink.NewLineReader(bytes.NewReader(data), int(limit))
		for _, want := range lines[:len(lines)-1] {
			got, _, err := r.Next()
			var long *hostlink.TooLongError
			switch {
			case len(want) > int(limit):
				if !errors.As(err, &long) || long.Size != len(want) {
					t.Fatalf("Next() = %.60q, %v, want a line of %d bytes refused", got, err, len(want))
				}
			case err != nil || !bytes.Equal(got, want):
				t.Fatalf("Next() = %.60q, %v, want %.60q", got, err, want)
			}
		}
		if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("Next() = %v at the end, want EOF", err)
		}
	})
}

func TestADroppedLineKeepsItsEnds(t *testing.T) {
	t.Parallel()
	text := `{"id":7,"result":"` + strings.Repeat("y", 100_000) + `"}`
	r := hostlink.NewLineReader(strings.NewReader(text+"\nnext\n"), 1000)
	_, _, err := r.Next()
	var long *hostlink.TooLongError
	if !errors.As(err, &long) {
		t.Fatalf("Next() = %v, want a TooLongError", err)
	}
	want := &hostlink.TooLongError{Size: len(text), Limit: 1000, Head: []byte(text[:128]), Tail: []byte(text[len(text)-128:])}
	if diff := cmp.Diff(want, long); diff != "" {
		t.Errorf("TooLongError (-want +got):\n%s", diff)
	}
	if line, _, err := r.Next(); string(line) != "next" || err != nil {
		t.Errorf("Next() = %q, %v, want the line after it", line, err)
	}
}

func TestProtocolVersionsMustAgreeInTheirMajor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		theirs, ours string
		ok           bool
		want         string // in the message: who is to update
	}{
		{"1.0", "1.0", true, ""},
		{"1.7", "1.0", true, ""},
		{"1", "1.0", true, ""},
		{"0.9", "1.0", false, "update the host's part"},
		{"2.0", "1.0", false, "update a2a-bridge"},
		{"", "1.0", false, "update the host's part"},
		{"new", "1.0", false, "update the host's part"},
	} {
		e := hostlink.CheckProtocol(tc.theirs, tc.ours)
		switch {
		case tc.ok && e != nil:
			t.Errorf("CheckProtocol(%q, %q) = %v", tc.theirs, tc.ours, e)
		case !tc.ok && (e == nil || e.Kind != hostlink.KindProtocol || !strings.Contains(e.Message, tc.want) ||
			!strings.Contains(e.Message, fmt.Sprintf("%q", tc.ours))):
			t.Errorf("CheckProtocol(%q, %q) = %v, want both versions and %q", tc.theirs, tc.ours, e, tc.want)
		}
	}
}

func TestASecretReplyDoesNotPrint(t *testing.T) {
	t.Parallel()
	r := hostlink.SecretReply{Name: "laptop", Token: "a2ab_secret"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, r); strings.Contains(got, "a2ab_") {
			t.Errorf("Sprintf(%q) = %s", format, got)
		}
	}
	if raw, err := json.Marshal(r); err != nil || !strings.Contains(string(raw), "a2ab_secret") {
		t.Errorf("Marshal = %s, %v, want the token: the host shows it", raw, err)
	}
}

func TestARefComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for _, want := range []bridge.Ref{
		{Front: "mcp", Session: "s", RPC: json.RawMessage(`9007199254740993`), Revision: "2025-11-25", Token: "t1", Peer: "laptop"},
		{Front: "mcp", RPC: json.RawMessage(`"<&> é"`), Token: "t1", Peer: "a<b"},
		{Front: "a2a", Token: "t2", Peer: "ci"},
	} {
		got, err := hostlink.DecodeRef(hostlink.EncodeRef(want))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("ref (-want +got), %v:\n%s", err, diff)
		}
	}
	if _, err := hostlink.DecodeRef(hostlink.EncodeRef(bridge.Ref{RPC: json.RawMessage(`{`), Peer: "x"})); err != nil {
		t.Errorf("a ref with a broken id: %v, want the rest of it", err)
	}
	if _, err := hostlink.DecodeRef(json.RawMessage(`[]`)); err == nil {
		t.Error("DecodeRef([]) = nil, want an error")
	}
}

func TestEqualCataloguesHaveEqualHashes(t *testing.T) {
	t.Parallel()
	a, b := scriptedTools("x", "y"), scriptedTools("y", "x")
	if hostlink.CatalogueHash(a) != hostlink.CatalogueHash(scriptedTools("x", "y")) {
		t.Error("the same list has two hashes")
	}
	b[0].Definition = json.RawMessage(`{broken`)
	seen := map[string]bool{}
	for _, tools := range [][]bridge.Tool{nil, a, b, scriptedTools("y", "x"), a[:1], {{Name: "x", Tier: "read", Source: "builtin", Definition: a[0].Definition}}} {
		hash := hostlink.CatalogueHash(tools)
		if seen[hash] || !strings.HasPrefix(hash, "sha256:") {
			t.Errorf("%v has the hash %s of another list", tools, hash)
		}
		seen[hash] = true
	}
}
