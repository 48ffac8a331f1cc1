package mcpfront_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestSurface goes through what the HTTP surface answers, row by row.
func TestSurface(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	gone := g.session("2025-11-25")
	if r := g.do("DELETE", "/mcp", "", "Mcp-Session-Id", gone); r.StatusCode != 204 {
		t.Fatalf("DELETE = %d, want 204", r.StatusCode)
	}
	ping := `{"jsonrpc":"2.0","id":5,"method":"ping"}`
	big := `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`
	modernBody := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":5,"method":"` + method + `","params":{` + params + meta + `}}`
	}
	mod := func(method string, more ...string) []string {
		return append([]string{"Mcp-Protocol-Version", modern, "Mcp-Method", method}, more...)
	}
	old := func(more ...string) []string { return append([]string{"Mcp-Session-Id", s}, more...) }
	const nul, five = `"id":null`, `"id":5`
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string // in the body
		allow                    string
	}{
		{"post to the root", "POST", "/", ping, old(), 200, `{"jsonrpc":"2.0","id":5,"result":{}}`, ""},
		{"post to the root, modern", "POST", "/", modernBody("tools/list", ""), mod("tools/list"), 200, `"resultType":"complete"`, ""},
		{"get without a session", "GET", "/mcp", "", nil, 405, nul, "POST, DELETE"},
		{"get with an unknown session", "GET", "/mcp", "", []string{"Mcp-Session-Id", "x"}, 405, nul, "POST, DELETE"},
		{"get with a deleted session", "GET", "/mcp", "", []string{"Mcp-Session-Id", gone}, 405, nul, "POST, DELETE"},
		{"get that wants JSON", "GET", "/mcp", "", old("Accept", "application/json"), 405, nul, "POST, DELETE"},
		{"get with a forged event", "GET", "/mcp", "", old("Last-Event-ID", "AQ"), 405, nul, "POST, DELETE"},
		{"get, modern", "GET", "/mcp", "", mod("x"), 405, nul, "POST"},
		{"delete without a session", "DELETE", "/mcp", "", nil, 400, nul, ""},
		{"delete of an unknown session", "DELETE", "/mcp", "", []string{"Mcp-Session-Id", "x"}, 404, nul, ""},
		{"delete again", "DELETE", "/mcp", "", []string{"Mcp-Session-Id", gone}, 404, nul, ""},
		{"delete, modern", "DELETE", "/mcp", "", old("Mcp-Protocol-Version", modern), 405, nul, "POST"},
		{"get with a body", "GET", "/mcp", "{}", old(), 400, nul, ""},
		{"put", "PUT", "/mcp", "", nil, 405, nul, "GET, POST, DELETE"},
		{"patch", "PATCH", "/mcp", "", nil, 405, nul, "GET, POST, DELETE"},
		{"options", "OPTIONS", "/mcp", "", nil, 405, nul, "GET, POST, DELETE"},
		{"head", "HEAD", "/mcp", "", nil, 405, "", "GET, POST, DELETE"},
		{"notification", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, old(), 202, "", ""},
		{"notification on an unknown session", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{"Mcp-Session-Id", "x"}, 202, "", ""},
		{"cancel on an unknown session", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, []string{"Mcp-Session-Id", "x"}, 202, "", ""},
		{"notification without a session", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, nil, 202, "", ""},
		{"notification, modern, without _meta", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, mod("notifications/cancelled"), 202, "", ""},
		{"request without an id is a notification", "POST", "/mcp", callNoID, old(), 202, "", ""},
		{"id null", "POST", "/mcp", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, old(), 400, `-32600`, ""},
		{"id null, modern", "POST", "/mcp", `{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{` + meta + `}}`, mod("tools/list"), 400, `-32600`, ""},
		{"id an object", "POST", "/mcp", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, old(), 400, `-32600`, ""},
		{"id true", "POST", "/mcp", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, old(), 400, `-32600`, ""},
		{"unknown session", "POST", "/mcp", ping, []string{"Mcp-Session-Id", "mcp-session-0b1c"}, 404, five, ""},
		{"missing session", "POST", "/mcp", ping, nil, 400, five, ""},
		{"deleted session", "POST", "/mcp", ping, []string{"Mcp-Session-Id", gone}, 404, five, ""},
		{"another token's session", "POST", "/mcp", ping, old("Authorization", "Bearer other"), 404, five, ""},
		{"session of another host", "POST", "/mcp/app", ping, old(), 404, five, ""},
		{"unknown method", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"x/y"}`, old(), 200, `"id":5,"error":{"code":-32601`, ""},
		{"unknown method, modern", "POST", "/mcp", modernBody("x/y", ""), mod("x/y"), 404, `"id":5,"error":{"code":-32601`, ""},
		{"ping, modern", "POST", "/mcp", modernBody("ping", ""), mod("ping"), 404, `-32601`, ""},
		{"initialize, modern", "POST", "/mcp", modernBody("initialize", ""), mod("initialize"), 404, `-32601`, ""},
		{"capability that we lack", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"resources/list"}`, old(), 200, `-32601`, ""},
		{"capability that we lack, modern", "POST", "/mcp", modernBody("prompts/list", ""), mod("prompts/list"), 404, `-32601`, ""},
		{"logging, modern", "POST", "/mcp", modernBody("logging/setLevel", ""), mod("logging/setLevel"), 404, `-32601`, ""},
		{"empty body", "POST", "/mcp", "", old(), 400, `-32700`, ""},
		{"blank body", "POST", "/mcp", " \n\t", old(), 400, `-32700`, ""},
		{"no JSON", "POST", "/mcp", "{nope", old(), 400, `-32700`, ""},
		{"not closed", "POST", "/mcp", `{"jsonrpc":"2.0","id":1`, old(), 400, `-32700`, ""},
		{"not UTF-8", "POST", "/mcp", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", old(), 400, `-32700`, ""},
		{"batch", "POST", "/mcp", "[" + ping + "]", old(), 400, `-32600`, ""},
		{"empty batch", "POST", "/mcp", "[]", old(), 400, `-32600`, ""},
		{"empty object", "POST", "/mcp", "{}", old(), 400, `-32600`, ""},
		{"scalar", "POST", "/mcp", "5", old(), 400, `-32600`, ""},
		{"jsonrpc missing", "POST", "/mcp", `{"id":5,"method":"ping"}`, old(), 400, `-32600`, ""},
		{"jsonrpc 1.0", "POST", "/mcp", `{"jsonrpc":"1.0","id":5,"method":"ping"}`, old(), 400, `-32600`, ""},
		{"method a number", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":5}`, old(), 400, `-32600`, ""},
		{"params an array", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}`, old(), 400, `-32600`, ""},
		{"something after it", "POST", "/mcp", ping + ping, old(), 400, `-32600`, ""},
		{"key twice", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}`, old(), 400, `-32600`, ""},
		{"key twice, spelled differently", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"\u0069d":6,"method":"ping"}`, old(), 400, `-32600`, ""},
		{"param twice", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","name":"hold"}}`, old(), 400, `-32600`, ""},
		{"nested 100000 deep", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`, old(), 400, `-32600`, ""},
		{"too large", "POST", "/mcp", big, old(), 413, `"id":null,"error":{"code":-32600`, ""},
		{"too large, modern", "POST", "/mcp", big, mod("ping"), 413, `-32600`, ""},
		{"no content type", "POST", "/mcp", ping, old("Content-Type", ""), 415, `-32600`, ""},
		{"wrong content type", "POST", "/mcp", ping, old("Content-Type", "text/plain"), 415, `-32600`, ""},
		{"content type with a charset", "POST", "/mcp", ping, old("Content-Type", "application/json; charset=utf-8"), 200, `"result":{}`, ""},
		{"compressed", "POST", "/mcp", ping, old("Content-Encoding", "gzip"), 415, `-32600`, ""},
		{"accept missing", "POST", "/mcp", ping, old("Accept", ""), 200, `"result":{}`, ""},
		{"accept html", "POST", "/mcp", ping, old("Accept", "text/html"), 200, `"result":{}`, ""},
		{"version 1999", "POST", "/mcp", ping, old("Mcp-Protocol-Version", "1999-01-01"), 400, five, ""},
		{"version malformed", "POST", "/mcp", ping, old("Mcp-Protocol-Version", "latest"), 400, five, ""},
		{"version other than negotiated", "POST", "/mcp", ping, old("Mcp-Protocol-Version", "2024-11-05"), 200, `"result":{}`, ""},
		{"version only in the header", "POST", "/mcp", ping, mod("ping"), 400, `-32602`, ""},
		{"version only in the body", "POST", "/mcp", modernBody("tools/list", ""), []string{"Mcp-Method", "tools/list"}, 400, `-32020`, ""},
		{"versions that differ", "POST", "/mcp", modernBody("tools/list", ""), []string{"Mcp-Protocol-Version", "2027-01-01", "Mcp-Method", "tools/list"}, 400, `-32020`, ""},
		{"version of the future", "POST", "/mcp", strings.ReplaceAll(modernBody("tools/list", ""), modern, "2099-01-01"), []string{"Mcp-Protocol-Version", "2099-01-01", "Mcp-Method", "tools/list"}, 400, `"code":-32022,"message":"this revision is not spoken here","data":{"requested":"2099-01-01","supported":["2026-07-28","2025-11-25"`, ""},
		{"capabilities missing, modern", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, mod("tools/list"), 400, `-32602`, ""},
		{"method header missing, modern", "POST", "/mcp", modernBody("tools/list", ""), []string{"Mcp-Protocol-Version", modern}, 400, `-32020`, ""},
		{"method header wrong, modern", "POST", "/mcp", modernBody("tools/list", ""), mod("tools/call"), 400, `-32020`, ""},
		{"name header missing, modern", "POST", "/mcp", modernBody("tools/call", `"name":"echo",`), mod("tools/call"), 400, `-32020`, ""},
		{"name header wrong, modern", "POST", "/mcp", modernBody("tools/call", `"name":"echo",`), mod("tools/call", "Mcp-Name", "hold"), 400, `-32020`, ""},
		{"name header wrong in another spelling of the member", "POST", "/mcp", modernBody("tools/call", `"name":"echo","NAME":"hold",`), mod("tools/call", "Mcp-Name", "hold"), 400, `-32020`, ""},
		{"name header in base64, modern", "POST", "/mcp", modernBody("tools/call", `"name":"echo",`), mod("tools/call", "Mcp-Name", "=?base64?ZWNobw==?="), 200, `"structuredContent":{}`, ""},
		{"session and last event are ignored, modern", "POST", "/mcp", modernBody("tools/list", ""), mod("tools/list", "Mcp-Session-Id", "x", "Last-Event-ID", "x"), 200, `"ttlMs":0`, ""},
		{"response to nothing", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"result":{}}`, old(), 202, "", ""},
		{"response to nothing, modern", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"result":{}}`, mod("x"), 400, `-32600`, ""},
		{"discover without a session", "POST", "/mcp", modernBody("server/discover", ""), mod("server/discover"), 200, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`, ""},
		{"discover without _meta", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"server/discover"}`, nil, 400, five, ""},
		{"initialize with a stale session", "POST", "/mcp", initialize("2025-06-18"), []string{"Mcp-Session-Id", "x"}, 200, `"protocolVersion":"2025-06-18"`, ""},
		{"plain JSON for a call that only reads", "POST", "/mcp", callBody("5", "read", ""), old(), 200, `{"jsonrpc":"2.0","id":5,"result":{"content"`, ""},
		{"call, modern", "POST", "/mcp", modernBody("tools/call", `"name":"echo",`), mod("tools/call", "Mcp-Name", "echo"), 200, `"result":{"resultType":"complete","content"`, ""},
		{"call without a name", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{}}`, old(), 200, `-32602`, ""},
		{"list with a cursor", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":"x"}}`, old(), 200, `-32602`, ""},
		{"arguments an array", "POST", "/mcp", callBody("5", "echo", `,"arguments":[1]`), old(), 200, `"isError":true`, ""},
		{"arguments null", "POST", "/mcp", callBody("5", "read", `,"arguments":null`), old(), 200, `"structuredContent":{}`, ""},
		{"unknown tool", "POST", "/mcp", callBody("5", "end tool unavailable", ""), old(), 200, `"isError":true`, ""},
		{"unknown tool, modern", "POST", "/mcp", modernBody("tools/call", `"name":"end tool unavailable",`), mod("tools/call", "Mcp-Name", "end tool unavailable"), 200, `"isError":true`, ""},
		{"host that was never seen", "POST", "/mcp/nobody", initialize("2025-11-25"), nil, 404, `"id":0,`, ""},
		{"host that was never seen, modern", "POST", "/mcp/nobody", modernBody("tools/list", ""), mod("tools/list"), 404, five, ""},
		{"path below a host", "POST", "/mcp/app/x", ping, nil, 404, "", ""},
	} {
		r := g.do(tt.method, tt.path, tt.body, tt.header...)
		body := r.all()
		if r.StatusCode != tt.status || !strings.Contains(body, tt.want) || r.Header.Get("Allow") != tt.allow {
			t.Errorf("%s: %d, Allow %q, body %.300q\nwant %d, Allow %q, body with %q", tt.name,
				r.StatusCode, r.Header.Get("Allow"), body, tt.status, tt.allow, tt.want)
		}
		if tt.status == 202 && body != "" {
			t.Errorf("%s: 202 with the body %q", tt.name, body)
		}
		if strings.HasPrefix(body, "{") && r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: content type %q", tt.name, r.Header.Get("Content-Type"))
		}
	}
}

const callNoID = `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"hold"}}`

func TestBodyTooLargeInChunksIs413(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for _, size := range []int{1<<20 + 1, 4 << 20} {
		// A reader of unknown size makes the client send chunks.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/mcp", io.MultiReader(bytes.NewReader(make([]byte, size))))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 413 || !bytes.Contains(b, []byte(`"id":null,"error":{"code":-32600`)) {
			t.Errorf("%d bytes in chunks: %d %s", size, resp.StatusCode, b)
		}
	}
}

func TestInitializeNegotiates(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for _, tt := range []struct{ asked, want string }{
		{`"2024-11-05"`, "2024-11-05"}, {`"2025-03-26"`, "2025-03-26"}, {`"2025-06-18"`, "2025-06-18"},
		{`"2025-11-25"`, "2025-11-25"}, {`"2026-07-28"`, "2025-11-25"}, {`"2099-01-01"`, "2025-11-25"},
		{`"1999-01-01"`, "2025-11-25"}, {`""`, "2025-03-26"}, {`7`, "2025-11-25"}, {`null`, "2025-11-25"}, {``, "2025-03-26"},
	} {
		version := ""
		if tt.asked != "" {
			version = `"protocolVersion":` + tt.asked + `,`
		}
		r := g.do("POST", "/mcp", `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{`+version+`"capabilities":{}}}`)
		body := r.all()
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"a2a-bridge","version":"1.0.0"}`, tt.want)
		if r.StatusCode != 200 || !strings.HasPrefix(body, want) {
			t.Errorf("initialize with %s: %d %s\nwant %s…", tt.asked, r.StatusCode, body, want)
		}
	}
}
