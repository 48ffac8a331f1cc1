package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// bridgeFails is a tool whose host cannot run it.
func bridgeFails(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	return nil, &hostlink.Error{Kind: hostlink.KindFault, Message: "panic: of the tool", Executed: bridge.ExecutedUnknown}
}

// surfaceRow is one probe and what the caller with a token gets.
type surfaceRow struct {
	name, method, path, body string
	header                   []string
	status                   int
	want, allow              string
	early                    bool // refused before anybody is asked for a token
}

func sessionRows(session, gone string) []surfaceRow {
	const ping = `{"jsonrpc":"2.0","id":5,"method":"ping"}`
	in := func(more ...string) []string { return append([]string{"Mcp-Session-Id", session}, more...) }
	initialize := func(version string) string {
		return `{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":` + version + `,"capabilities":{}}}`
	}
	call := func(tool string) string {
		return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"a":1}}}`
	}
	return []surfaceRow{
		{"POST at the root", "POST", "/", ping, in(), 200, `"id":5,"result":{}`, "", false},
		{"GET without a session", "GET", "/mcp", "", nil, 405, `"id":null`, "POST, DELETE", false},
		{"GET with an unknown session", "GET", "/mcp", "", []string{"Mcp-Session-Id", "x"}, 405, `"id":null`, "POST, DELETE", false},
		{"DELETE without a session", "DELETE", "/mcp", "", nil, 400, `"id":null`, "", false},
		{"DELETE of an unknown session", "DELETE", "/mcp", "", []string{"Mcp-Session-Id", "x"}, 404, `"id":null`, "", false},
		{"PUT", "PUT", "/mcp", "", nil, 405, `"id":null`, "GET, POST, DELETE", false},
		{"PATCH", "PATCH", "/mcp", "", nil, 405, `"id":null`, "GET, POST, DELETE", false},
		{"OPTIONS", "OPTIONS", "/mcp", "", nil, 405, `"id":null`, "GET, POST, DELETE", false},
		{"HEAD", "HEAD", "/mcp", "", nil, 405, "", "GET, POST, DELETE", false},
		{"notification", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, in(), 202, "", "", false},
		{"id null", "POST", "/mcp", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, in(), 400, `-32600`, "", false},
		{"unknown session", "POST", "/mcp", ping, []string{"Mcp-Session-Id", "mcp-session-1"}, 404, `"id":5`, "", false},
		{"missing session", "POST", "/mcp", ping, nil, 400, `"id":5`, "", false},
		{"deleted session", "POST", "/mcp", ping, []string{"Mcp-Session-Id", gone}, 404, `"id":5`, "", false},
		{"unknown method", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"x/y"}`, in(), 200, `-32601`, "", false},
		{"absent capability", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"prompts/list"}`, in(), 200, `-32601`, "", false},
		{"no JSON", "POST", "/mcp", `{nope`, in(), 400, `"id":null,"error":{"code":-32700`, "", false},
		{"empty body", "POST", "/mcp", ``, in(), 400, `"id":null,"error":{"code":-32700`, "", false},
		{"batch", "POST", "/mcp", `[` + ping + `]`, in(), 400, `-32600`, "", false},
		{"empty object", "POST", "/mcp", `{}`, in(), 400, `-32600`, "", false},
		{"more than a mebibyte", "POST", "/mcp", strings.Repeat(" ", 1<<20) + ping, in(), 413, `"id":null`, "", false},
		{"no content type", "POST", "/mcp", ping, in("Content-Type", ""), 415, `-32600`, "", false},
		{"wrong content type", "POST", "/mcp", ping, in("Content-Type", "text/plain"), 415, `-32600`, "", false},
		{"Accept missing", "POST", "/mcp", ping, in("Accept", ""), 200, `"result":{}`, "", false},
		{"Accept text/html", "POST", "/mcp", ping, in("Accept", "text/html"), 200, `"result":{}`, "", false},
		{"version 1999", "POST", "/mcp", ping, in("Mcp-Protocol-Version", "1999-01-01"), 400, `"id":5`, "", false},
		{"initialize of 2099", "POST", "/mcp", initialize(`"2099-01-01"`), nil, 200, `"protocolVersion":"2025-11-25"`, "", false},
		{"initialize of no version", "POST", "/mcp", initialize(`7`), nil, 200, `"protocolVersion":"2025-11-25"`, "", false},
		{"initialize with a stale session", "POST", "/mcp", initialize(`"2024-11-05"`), []string{"Mcp-Session-Id", gone}, 200, `"protocolVersion":"2024-11-05"`, "", false},
		{"plain JSON", "POST", "/mcp", call("echo"), in(), 200, `{"jsonrpc":"2.0","id":5,"result":{"content":[{"text":"{\"a\":1}"`, "", false},
		{"foreign Origin", "POST", "/mcp", ping, in("Origin", "https://evil.example"), 403, `http.allowed_origins`, "", true},
		{"Origin null", "POST", "/mcp", ping, in("Origin", "null"), 403, `http.allowed_origins`, "", true},
		{"foreign Host", "POST", "/mcp", ping, in("Host", "evil.example"), 403, `http.allowed_hosts`, "", true},
		{"Host of a tunnel", "POST", "/mcp", ping, in("Host", "localhost:9000"), 200, `"result":{}`, "", false},
		{"unknown tool", "POST", "/mcp", call("nothing"), in(), 200, `"isError":true`, "", false},
		{"tool that fails", "POST", "/mcp", call("fails"), in(), 200, `"isError":true`, "", false},
		{"discovery of OAuth", "GET", "/.well-known/oauth-protected-resource", "", nil, 404, "", "", true},
		{"path with two slashes", "POST", "//mcp", ping, in(), 404, "", "", true},
		{"slash in a host's name", "POST", "/mcp/a%2Fb", ping, in(), 404, "", "", true},
	}
}

func statelessRows(session, gone string) []surfaceRow {
	mod := func(method string, more ...string) []string {
		return append([]string{"Mcp-Protocol-Version", statelessRevision, "Mcp-Method", method}, more...)
	}
	list := statelessBody("tools/list", "")
	call := func(tool string) string { return statelessBody("tools/call", `"name":"`+tool+`","arguments":{"a":1},`) }
	future := strings.ReplaceAll(list, statelessRevision, "2099-01-01")
	const listed = `"resultType":"complete"`
	return []surfaceRow{
		{"POST at the root", "POST", "/", list, mod("tools/list"), 200, listed, "", false},
		{"GET", "GET", "/mcp", "", mod("x"), 405, `"id":null`, "POST", false},
		{"GET with a session", "GET", "/mcp", "", mod("x", "Mcp-Session-Id", session), 405, `"id":null`, "POST", false},
		{"DELETE", "DELETE", "/mcp", "", mod("x", "Mcp-Session-Id", session), 405, `"id":null`, "POST", false},
		{"PUT", "PUT", "/mcp", "", mod("x"), 405, `"id":null`, "GET, POST, DELETE", false},
		{"PATCH", "PATCH", "/mcp", "", mod("x"), 405, `"id":null`, "GET, POST, DELETE", false},
		{"OPTIONS", "OPTIONS", "/mcp", "", mod("x"), 405, `"id":null`, "GET, POST, DELETE", false},
		{"HEAD", "HEAD", "/mcp", "", mod("x"), 405, "", "GET, POST, DELETE", false},
		{"notification", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,` + statelessMeta + `}}`, mod("notifications/cancelled"), 202, "", "", false},
		{"id null", "POST", "/mcp", strings.Replace(list, `"id":5`, `"id":null`, 1), mod("tools/list"), 400, `-32600`, "", false},
		{"unknown session is ignored", "POST", "/mcp", list, mod("tools/list", "Mcp-Session-Id", "x"), 200, listed, "", false},
		{"deleted session is ignored", "POST", "/mcp", list, mod("tools/list", "Mcp-Session-Id", gone), 200, listed, "", false},
		{"unknown method", "POST", "/mcp", statelessBody("x/y", ""), mod("x/y"), 404, `-32601`, "", false},
		{"absent capability", "POST", "/mcp", statelessBody("prompts/list", ""), mod("prompts/list"), 404, `-32601`, "", false},
		{"ping is of the other era", "POST", "/mcp", statelessBody("ping", ""), mod("ping"), 404, `-32601`, "", false},
		{"no JSON", "POST", "/mcp", `{nope`, mod("tools/list"), 400, `"id":null,"error":{"code":-32700`, "", false},
		{"empty body", "POST", "/mcp", ``, mod("tools/list"), 400, `"id":null,"error":{"code":-32700`, "", false},
		{"batch", "POST", "/mcp", `[` + list + `]`, mod("tools/list"), 400, `-32600`, "", false},
		{"empty object", "POST", "/mcp", `{}`, mod("tools/list"), 400, `-32600`, "", false},
		{"more than a mebibyte", "POST", "/mcp", strings.Repeat(" ", 1<<20) + list, mod("tools/list"), 413, `"id":null`, "", false},
		{"no content type", "POST", "/mcp", list, mod("tools/list", "Content-Type", ""), 415, `-32600`, "", false},
		{"wrong content type", "POST", "/mcp", list, mod("tools/list", "Content-Type", "text/plain"), 415, `-32600`, "", false},
		{"Accept missing", "POST", "/mcp", list, mod("tools/list", "Accept", ""), 200, listed, "", false},
		{"Accept text/html", "POST", "/mcp", list, mod("tools/list", "Accept", "text/html"), 200, listed, "", false},
		{"version of the future", "POST", "/mcp", future, []string{"Mcp-Protocol-Version", "2099-01-01", "Mcp-Method", "tools/list"}, 400, `-32022`, "", false},
		{"version in the header alone", "POST", "/mcp", `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, mod("tools/list"), 400, `-32602`, "", false},
		{"version in the body alone", "POST", "/mcp", list, []string{"Mcp-Method", "tools/list"}, 400, `-32020`, "", false},
		{"plain JSON", "POST", "/mcp", call("echo"), mod("tools/call", "Mcp-Name", "echo"), 200, `{"jsonrpc":"2.0","id":5,"result":{` + listed + `,"content":[{"text":"{\"a\":1}"`, "", false},
		{"foreign Origin", "POST", "/mcp", list, mod("tools/list", "Origin", "https://evil.example"), 403, `http.allowed_origins`, "", true},
		{"foreign Host", "POST", "/mcp", list, mod("tools/list", "Host", "evil.example"), 403, `http.allowed_hosts`, "", true},
		{"unknown tool", "POST", "/mcp", call("nothing"), mod("tools/call", "Mcp-Name", "nothing"), 200, `"isError":true`, "", false},
		{"tool that fails", "POST", "/mcp", call("fails"), mod("tools/call", "Mcp-Name", "fails"), 200, `"isError":true`, "", false},
		{"discover", "POST", "/mcp", statelessBody("server/discover", ""), mod("server/discover"), 200, `"supportedVersions":["2026-07-28"`, "", false},
	}
}

// TestSurfaceOfTheDaemonInBothErasWithAndWithoutAToken asks the whole daemon every question of the HTTP surface. Who has no
// token learns nothing but that, whatever is asked, and learns of names and pages that are not allowed as everybody does.
func TestSurfaceOfTheDaemonInBothErasWithAndWithoutAToken(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	b.AttachScripted(t, bridgetest.HostOptions{Tools: fieldTools()})
	c := newCaller(t, b, "laptop")
	gone := c.initialize()
	if r := c.do("DELETE", "/mcp", "", "Mcp-Session-Id", gone); r.status != http.StatusNoContent || r.body != "" {
		t.Fatalf("DELETE: %d %q, want 204", r.status, r.body)
	}
	session := c.initialize()
	for era, rows := range map[string][]surfaceRow{"sessions": sessionRows(session, gone), "stateless": statelessRows(session, gone)} {
		for _, row := range rows {
			r := c.do(row.method, row.path, row.body, row.header...)
			if r.status != row.status || !strings.Contains(r.body, row.want) || r.header.Get("Allow") != row.allow {
				t.Errorf("%s, %s: %d, Allow %q, %.300q\nwant %d, Allow %q, and %q", era, row.name, r.status, r.header.Get("Allow"), r.body, row.status, row.allow, row.want)
			}
			if (row.status == http.StatusAccepted || row.method == "HEAD") && r.body != "" {
				t.Errorf("%s, %s: %d with the body %q", era, row.name, r.status, r.body)
			}
			for how, header := range map[string]string{"no token": "", "a wrong token": "Bearer a2ab_" + strings.Repeat("x", 43), "an empty token": "Bearer "} {
				got := c.do(row.method, row.path, row.body, append([]string{"Authorization", header}, row.header...)...)
				want := reply{status: http.StatusUnauthorized, body: auth.Unauthorized}
				switch {
				case row.early:
					want = reply{status: r.status, body: r.body}
				case row.method == "HEAD":
					want.body = ""
				}
				if diff := cmp.Diff([]any{want.status, want.body}, []any{got.status, got.body}); diff != "" {
					t.Errorf("%s, %s, with %s (-want +got)\n%s", era, row.name, how, diff)
				}
				if challenge := got.header.Values("WWW-Authenticate"); !row.early && !cmp.Equal(challenge, []string{"Bearer"}) {
					t.Errorf("%s, %s, with %s: WWW-Authenticate %q, want one without a link to metadata", era, row.name, how, challenge)
				}
			}
		}
	}
}
