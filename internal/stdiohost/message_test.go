package stdiohost_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/a2a-bridge/a2a-bridge/internal/stdiohost"
)

func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"no"}}`,
		`{"id":1,"error":"text"}`, `{"id":1,"error":{"code":"x","message":7}}`, `{"method":"notifications/progress","params":{"progressToken":1}}`,
		`{"id":null,"method":"ping"}`, `{"method":5}`, `{}`, `[`, `{"id":1,"result":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		id, method, err := stdiohost.ParseMessage(line)
		if err != nil {
			return
		}
		if !json.Valid(line) {
			t.Fatalf("ParseMessage(%q) took what is no JSON", line)
		}
		if id == "" && method == "" {
			t.Fatalf("ParseMessage(%q) took what is neither a request nor an answer", line)
		}
	})
}

func TestTheEndsOfALineTellItsId(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		head, tail string
		id         int64
		ok         bool
	}{
		{`{"jsonrpc":"2.0","id":7,"result":{"con`, `"}]}}`, 7, true},
		{`{"id":"8","result":{"con`, `"}]}}`, 8, true},
		{`{ "jsonrpc" : "2.0", "id" : 9 , "result":`, `}}`, 9, true},
		{`{"result":{"content":[`, `]},"id":10}`, 10, true},
		{`{"result":{"content":[`, `]},"id":11,"jsonrpc":"2.0"}`, 11, true},
		{`{"jsonrpc":"2.0","result":{"content":[`, `]}, "id" : "12" } `, 12, true},
		{`{"result":{"content":[`, `],"id":13}}`, 0, false},
		{`{"result":{"id":14,`, `]}}`, 0, false},
		{`{"id":-1,"result":`, `}`, 0, false},
		{`xxxxxxxx`, `xxxxx`, 0, false},
	} {
		id, ok := stdiohost.IDOf([]byte(tc.head), []byte(tc.tail))
		if id != tc.id || ok != tc.ok {
			t.Errorf("IDOf(%s … %s) = %d, %t, want %d, %t", tc.head, tc.tail, id, ok, tc.id, tc.ok)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("plain \x1b[2J \u202e \xff\t é")
	f.Fuzz(func(t *testing.T, s string) {
		got := stdiohost.Escape(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) {
			t.Fatalf("Escape(%q) = %q", s, got)
		}
	})
}
