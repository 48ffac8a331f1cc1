package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// mirrorArg makes this test binary a program on stdio that answers with exactly the bytes that it got.
const mirrorArg = "mcp-mirror-over-stdio"

// mirrorSchema has what a decoder would change: the order of keys, long numbers, letters in two spellings.
const mirrorSchema = `{"type":"object","z":1.0,"a":9007199254740993,"properties":{"<&>":{"description":"\u00e9 é 😀"}}}`

// mirror answers calls of "mirror" with their arguments as structured content, and calls of "large" with so many bytes of
// text. No encoder touches what it says.
func mirror(r io.Reader, w io.Writer) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		var result string
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"` + sessionRevision + `","capabilities":{"tools":{}},"serverInfo":{"name":"mirror","version":"1"}}`
		case "ping":
			result = `{}`
		case "tools/list":
			result = `{"tools":[{"name":"mirror","inputSchema":` + mirrorSchema + `},{"name":"large","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = mirrored(m.Params.Name, m.Params.Arguments)
		default: // notifications
			continue
		}
		if _, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result); err != nil {
			return err
		}
	}
}

func mirrored(tool string, arguments json.RawMessage) string {
	if tool == "mirror" {
		return `{"content":[],"structuredContent":` + string(arguments) + `}`
	}
	var a struct{ Bytes int }
	_ = json.Unmarshal(arguments, &a) // the test sends a number
	return largeResult(a.Bytes)
}

// largeResult is a result of so many bytes whose text has no period that fits into a buffer.
func largeResult(size int) string {
	var b strings.Builder
	b.Grow(size)
	b.WriteString(`{"content":[{"type":"text","text":"`)
	const end = `"}]}`
	for n := 0; ; n++ {
		piece := strconv.Itoa(n) + ` é😀\u00e9\n`
		if b.Len()+len(piece)+len(end) > size {
			break
		}
		b.WriteString(piece)
	}
	b.WriteString(strings.Repeat("x", size-b.Len()-len(end)))
	b.WriteString(end)
	return b.String()
}

// TestChainBytesPassThroughTheWholeChain: program, a2actl attach, host link, hub, HTTP. What a caller sends arrives as it is
// and comes back as it is.
func TestChainBytesPassThroughTheWholeChain(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	attachSelf(t, b, mirrorArg)
	c := newCaller(t, b, "laptop")
	session := c.initialize()
	if list := c.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", session); !strings.Contains(list.body, `"inputSchema":`+mirrorSchema) {
		t.Errorf("the list has not the program's schema: %s", list.body)
	}
	eras := map[string]func(tool, arguments string) reply{
		"stateless": c.result,
		"session": func(tool, arguments string) reply {
			return c.do("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments),
				"Mcp-Session-Id", session)
		},
	}
	for era, call := range eras {
		for _, arguments := range []string{
			`{"n":9007199254740993,"max":18446744073709551616,"x":1.0,"e":1.5E+300,"neg":-0}`,
			`{"z":1,"a":[],"s":"\u00e9 é 😀 \ud800 <&> ` + "\u2028" + `","\u0061":{}}`,
			`{"s":"` + strings.Repeat("ü𐍈", 100_000) + `"}`,
		} {
			if got := call("mirror", arguments); !strings.Contains(got.body, `"structuredContent":`+arguments+`}`) {
				t.Errorf("%s: %.80s came back as %.160s", era, arguments, got.body)
			}
		}
		const most = 16 << 20                             // limits.result
		_, want, _ := strings.Cut(largeResult(most), "{") // the stateless era adds a key at the front
		if got := call("large", fmt.Sprintf(`{"bytes":%d}`, most)); !strings.Contains(got.body, want) {
			t.Errorf("%s: %d bytes of %d came: %.160s", era, len(got.body), most, got.body)
		}
		if got := call("large", fmt.Sprintf(`{"bytes":%d}`, most+1)); !strings.Contains(got.body, `"isError":true`) || !strings.Contains(got.body, "too large") {
			t.Errorf("%s: one byte more: %.300s", era, got.body)
		}
	}
}
