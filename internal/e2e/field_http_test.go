package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// TestRequestsThatNoClientShouldSend are answered with a status, alone or before the connection is closed, and the bridge
// goes on.
func TestRequestsThatNoClientShouldSend(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	b.AttachScripted(t, bridgetest.HostOptions{Tools: fieldTools()})
	c := newCaller(t, b, "laptop")
	session := c.initialize()
	const ping = `{"jsonrpc":"2.0","id":5,"method":"ping"}`
	const host, end = "Host: 127.0.0.1\r\n", "Connection: close\r\n\r\n"
	media := "Content-Type: application/json\r\nMcp-Session-Id: " + session + "\r\nAuthorization: Bearer " + c.token + "\r\n"
	head := func(line, more string) string { return line + "\r\n" + host + media + more + end }
	sized := func(line, body string) string {
		return head(line, fmt.Sprintf("Content-Length: %d\r\n", len(body))) + body
	}
	chunked := func(chunks string) string {
		return head("POST /mcp HTTP/1.1", "Transfer-Encoding: chunked\r\n") + chunks
	}
	const good = `"id":5,"result":{}`
	for _, tt := range []struct {
		name, request string
		status        int
		want          string
	}{
		{"HTTP/1.0", sized("POST /mcp HTTP/1.0", ping), 200, good},
		{"absolute form", sized("POST http://localhost/mcp HTTP/1.1", ping), 200, good},
		{"absolute form of a foreign name", sized("POST http://evil.example/mcp HTTP/1.1", ping), 403, "evil.example"},
		{"path that climbs", sized("POST /mcp/../mcp HTTP/1.1", ping), 404, ""},
		{"path that climbs, encoded", sized("POST /mcp/%2e%2e HTTP/1.1", ping), 404, ""},
		{"NUL in a host's name", sized("POST /mcp/%00 HTTP/1.1", ping), 404, ""},
		{"line end in a host's name", sized("POST /mcp/a%0d%0aX:y HTTP/1.1", ping), 404, ""},
		{"host's name of 8000 bytes", sized("POST /mcp/"+strings.Repeat("a", 8000)+" HTTP/1.1", ping), 404, ""},
		{"bad escape in a path", sized("POST /mcp/%zz HTTP/1.1", ping), 400, ""},
		{"two Host headers", sized("POST /mcp HTTP/1.1\r\nHost: evil.example", ping), 400, ""},
		{"no Host header", "POST /mcp HTTP/1.1\r\n" + media + end, 400, ""},
		{"OPTIONS of everything under a foreign name", "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n" + end, 403, "evil.example"},
		{"OPTIONS of everything", head("OPTIONS * HTTP/1.1", ""), 404, ""},
		{"CONNECT", "CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n" + end, 403, ""},
		{"TRACE", head("TRACE /mcp HTTP/1.1", ""), 405, ""},
		{"HTTP/2 without an upgrade", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 403, ""},
		{"upgrade to HTTP/2", strings.Replace(sized("POST /mcp HTTP/1.1", ping), end, "Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 1), 200, good},
		{"no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, ""},
		{"NUL in a header", head("POST /mcp HTTP/1.1", "X: a\x00b\r\n"), 400, ""},
		{"headers of 200 kB", head("POST /mcp HTTP/1.1", "X: "+strings.Repeat("a", 200_000)+"\r\n"), 431, ""},
		{"two lengths", head("POST /mcp HTTP/1.1", "Content-Length: 40\r\nContent-Length: 4\r\n") + ping, 400, ""},
		{"negative length", head("POST /mcp HTTP/1.1", "Content-Length: -1\r\n"), 400, ""},
		{"length beyond the limit, nothing sent", head("POST /mcp HTTP/1.1", "Content-Length: 99999999999\r\n"), 413, `"id":null`},
		{"length beyond the limit, asked before", head("POST /mcp HTTP/1.1", "Expect: 100-continue\r\nContent-Length: 2000000\r\n"), 413, `"id":null`},
		{"length too small", head("POST /mcp HTTP/1.1", "Content-Length: 10\r\n") + ping, 400, "-32700"},
		{"chunks with extensions and a trailer", chunked(fmt.Sprintf("%x;a=\"b\"\r\n%s\r\n0\r\nX: y\r\n\r\n", len(ping), ping)), 200, good},
		{"chunks of one byte", chunked(oneByteChunks(ping)), 200, good},
		{"chunk whose size is none", chunked("zz\r\n"), 400, ""},
		{"unknown transfer encoding", head("POST /mcp HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n"), 501, ""},
		{"content in gzip", strings.Replace(sized("POST /mcp HTTP/1.1", ping), end, "Content-Encoding: gzip\r\n"+end, 1), 415, ""},
		{"token in the query string", "POST /mcp?access_token=" + c.token + " HTTP/1.1\r\n" + host + end, 401, ""},
		{"two Authorization headers", sized("POST /mcp HTTP/1.1\r\nAuthorization: Bearer "+c.token, ping), 401, ""},
	} {
		got, closed := c.rawHTTP(tt.request, fieldTime)
		status := fmt.Sprintf(" %d ", tt.status)
		if len(got) < 13 || got[8:13] != status || !strings.Contains(got, tt.want) || !closed {
			t.Errorf("%s: closed %t, %.400q\nwant %d, and %q", tt.name, closed, got, tt.status, tt.want)
		}
		if strings.Contains(got, c.token) {
			t.Errorf("%s: the answer has the token: %q", tt.name, got)
		}
	}
}

func oneByteChunks(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "1\r\n%c\r\n", c)
	}
	return b.String() + "0\r\n\r\n"
}

// TestARefusedCallerCannotHoldAConnection: whoever gets nothing here is let go in time, also one who never sends the body
// that was announced.
func TestARefusedCallerCannotHoldAConnection(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	c := newCaller(t, b, "laptop")
	var all sync.WaitGroup
	for name, request := range map[string]string{
		"without a token":  "POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
		"at a wrong path":  "POST /nothing HTTP/1.1\r\nHost: localhost\r\n",
		"by a wrong name":  "POST /mcp HTTP/1.1\r\nHost: evil.example\r\n",
		"of the health":    "POST /healthz HTTP/1.1\r\nHost: localhost\r\n",
		"of everything":    "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n",
		"still in headers": "POST /mcp HTTP/1.1\r\nHost: loc",
	} {
		begun := strings.HasSuffix(request, "\r\n")
		if begun {
			request += "Content-Length: 100\r\n\r\n"
		}
		all.Go(func() {
			got, closed := c.rawHTTP(request, fieldTime)
			if !closed || begun && !strings.HasPrefix(got, "HTTP/1.1 4") {
				t.Errorf("%s: closed %t after %q", name, closed, got)
			}
		})
	}
	all.Wait()
}

// TestACallerWhoTakesNoAnswersIsCutOff: refusals are small, but there is no end to them.
func TestACallerWhoTakesNoAnswersIsCutOff(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	var all sync.WaitGroup
	for _, request := range []string{"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(b.URL, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		all.Go(func() {
			var err error
			for many := strings.Repeat(request, 1000); err == nil; _, err = io.WriteString(conn, many) {
				_ = conn.SetWriteDeadline(time.Now().Add(fieldTime))
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%.16q…: the bridge waited for %s with an answer that nobody takes", request, fieldTime)
			}
		})
	}
	all.Wait()
}
