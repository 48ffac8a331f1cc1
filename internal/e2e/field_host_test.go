package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// TestEveryAnswerOfABadHostEndsItsCall: whatever a host sends in place of an answer, its caller gets one, well formed, that
// says whether the tool ran; and the next call works.
func TestEveryAnswerOfABadHostEndsItsCall(t *testing.T) {
	t.Parallel()
	const good = `{"content":[{"type":"text","text":"done"}]}`
	for _, tt := range []struct {
		name  string
		lines []string // "%d" stands for the id of the call, "%s" for its callId
		want  string
	}{
		{"an error that is text", []string{`{"id":%d,"error":"boom"}`}, `"a2a-bridge/executed":"unknown"`},
		{"an error that is null", []string{`{"id":%d,"error":null}`}, `"a2a-bridge/executed":"unknown"`},
		{"an error with numbers in it", []string{`{"id":%d,"error":{"kind":5,"message":6}}`}, `"a2a-bridge/executed":"unknown"`},
		{"an error without a kind", []string{`{"id":%d,"error":{}}`}, `"a2a-bridge/executed":"unknown"`},
		{"an error that claims too much", []string{`{"id":%d,"error":{"kind":"denied","message":"\u001b]0;x\u0007\u202e","executed":"yes"}}`}, `"isError":true`},
		{"a result that is null", []string{`{"id":%d,"result":null}`}, `"a2a-bridge/executed":"yes"`},
		{"a result that is a list", []string{`{"id":%d,"result":[1]}`}, `"a2a-bridge/executed":"yes"`},
		{"a result and an error", []string{`{"id":%d,"result":{},"error":{}}`}, `"a2a-bridge/executed":"unknown"`},
		{"a result twice", []string{`{"id":%d,"result":{},"result":{}}`}, `"a2a-bridge/executed":"unknown"`},
		{"half a result", []string{`{"id":%d,"result":{"content":[`}, `"a2a-bridge/executed":"unknown"`},
		{"bytes that are no text", []string{"{\"id\":%d,\"result\":{\"content\":\"\xff\"}}"}, `"a2a-bridge/executed":"unknown"`},
		{"depth without end", []string{`{"id":%d,"result":{"a":` + strings.Repeat("[", 100_000)}, `"a2a-bridge/executed":"unknown"`},
		{"answers to others first", []string{`{"id":999999,"result":{}}`, `{"id":9007199254740991,"result":{}}`, `{"id":%d,"result":` + good + `}`}, `done`},
		{"the answer twice", []string{`{"id":%d,"result":` + good + `}`, `{"id":%d,"result":{"content":[{"type":"text","text":"other"}]}}`}, `done`},
		{"events of all kinds that are none", []string{`{"id":%d,"method":"progress","params":[]}`, `{"id":%d,"method":"approval","params":{"state":7}}`,
			`{"id":%d,"method":"progress","params":{"text":7}}`, `{"id":%d,"method":"cancel"}`, `{"id":%d,"result":` + good + `}`}, `done`},
		{"events about others", []string{`{"id":777,"method":"progress","params":{"text":"x"}}`, `{"id":777,"method":"approval","params":{"state":"pending"}}`, `{"id":%d,"result":` + good + `}`}, `done`},
		{"an approval that never began", []string{`{"id":%d,"method":"approval","params":{"state":"approved"}}`, `{"id":%d,"result":` + good + `}`}, `done`},
		{"words of another call", []string{`{"method":"late","params":{"callId":"c_nobody","isError":false}}`, `{"method":"late","params":{"callId":"%s","isError":false}}`, `{"id":%d,"result":` + good + `}`}, `done`},
		{"unknown methods", []string{`{"method":"x"}`, `{"id":1000,"method":"x"}`, `{"id":%d,"result":` + good + `}`}, `done`},
		{"lines that are no frames", []string{``, `[]`, `7`, `{`, `{"id":-1}`, `{"id":%d,"result":` + good + `}`}, `done`},
		{"a second hello", []string{`{"id":2,"method":"hello","params":{"protocol":"1.0","instance":"other"}}`, `{"id":%d,"result":` + good + `}`}, `done`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := bridgetest.Start(t, bridgetest.Options{})
			c := newCaller(t, b, "laptop")
			h := attachBad(t, b, "bad", "i1")
			answered := make(chan reply, 1)
			ask := func() {
				go func() { answered <- c.result("write", "{}") }()
			}
			ask()
			id, call := h.call()
			for _, line := range tt.lines {
				line = strings.ReplaceAll(strings.ReplaceAll(line, "%d", fmt.Sprint(id)), "%s", string(call.CallID))
				h.send(line)
			}
			if r := <-answered; r.status != 200 || !strings.Contains(r.body, tt.want) {
				t.Fatalf("the caller got %d %s\nwant %s in it", r.status, r.body, tt.want)
			}
			ask()
			id, _ = h.call()
			h.send(fmt.Sprintf(`{"id":%d,"result":%s}`, id, good))
			if r := <-answered; r.status != 200 || !strings.Contains(r.body, "done") {
				t.Errorf("the next caller got %d %s", r.status, r.body)
			}
		})
	}
}

// TestACallIsNotAnsweredByTheAnswerToAPing: a host that said hello late, with a ping of ours still unanswered, brings a call
// back; what it then says about the ping is not about the call.
func TestACallIsNotAnsweredByTheAnswerToAPing(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	c := newCaller(t, b, "laptop")
	h := attachBad(t, b, "bad", "i1")
	answered := make(chan reply, 1)
	go func() { answered <- c.result("write", "{}") }()
	id, call := h.call()
	h.send(fmt.Sprintf(`{"id":%d,"method":"accepted","params":{}}`, id))
	b.WaitStatus(t, "the call runs", func(s control.Status) bool { return s.Calls.Running == 1 })

	again := dialBad(t, b)
	ping := again.next()
	for ping.Method != "ping" {
		ping = again.next()
	}
	_ = h.conn.Close()
	w := again.hello("bad", "i1", fmt.Sprintf(`,"catalogue":"h","running":[{"callId":%q,"ref":{}}]`, call.CallID))
	if len(w.Resumed) != 1 {
		t.Fatalf("resumed %+v, want the call", w.Resumed)
	}
	again.send(fmt.Sprintf(`{"id":%d,"result":{}}`, ping.ID))
	again.send(fmt.Sprintf(`{"id":%d,"result":{"content":[{"type":"text","text":"done"}]}}`, w.Resumed[0].ID))
	if r := <-answered; !strings.Contains(r.body, "done") {
		t.Errorf("the caller got %d %s, want the answer of the tool", r.status, r.body)
	}
	if ping.ID == w.Resumed[0].ID {
		t.Errorf("a ping and a call have the same id %d", ping.ID)
	}
}

// TestAFloodOfProgressDelaysNobody: a flood of events about one call neither grow the daemon nor keep others waiting.
func TestAFloodOfProgressDelaysNobody(t *testing.T) {
	t.Parallel()
	const events = 200_000
	b := bridgetest.Start(t, bridgetest.Options{})
	c := newCaller(t, b, "laptop")
	b.AttachScripted(t, bridgetest.HostOptions{Name: "good", Tools: []bridgetest.ScriptedTool{{Name: "echo", Tier: bridge.TierRead}}})
	h := attachBad(t, b, "bad", "i1")
	answered := make(chan reply, 1)
	go func() {
		answered <- c.do("POST", "/mcp/bad", statelessBody("tools/call", `"name":"write",`+""), "Mcp-Protocol-Version", statelessRevision,
			"Mcp-Method", "tools/call", "Mcp-Name", "write")
	}()
	id, _ := h.call()
	line := fmt.Sprintf(`{"id":%d,"method":"progress","params":{"text":"%s"}}`+"\n", id, strings.Repeat("x", 40))
	flood := strings.Repeat(line, 1000)
	sent := make(chan error, 1)
	go func() {
		var err error
		for range events / 1000 {
			if _, err = h.conn.Write([]byte(flood)); err != nil {
				break
			}
		}
		sent <- err
	}()
	for range 20 {
		if r := c.result("echo", `{"a":1}`); !strings.Contains(r.body, `{\"a\":1}`) {
			t.Errorf("during the flood: %d %s", r.status, r.body)
		}
	}
	if err := <-sent; err != nil {
		t.Fatalf("the flood broke off: %v", err)
	}
	h.send(fmt.Sprintf(`{"id":%d,"result":{"content":[{"type":"text","text":"done"}]}}`, id))
	if r := <-answered; !strings.Contains(r.body, "done") {
		t.Errorf("after the flood: %d %.300s", r.status, r.body)
	}
}

// TestAHostCannotMakeTheBridgeKeepWhatItPleases: texts of a host are bounded wherever the bridge keeps them.
func TestAHostCannotMakeTheBridgeKeepWhatItPleases(t *testing.T) {
	t.Parallel()
	b := bridgetest.Start(t, bridgetest.Options{})
	c := newCaller(t, b, "laptop")
	h := attachBad(t, b, "bad", "i1")
	long := strings.Repeat("long", 1<<18)
	const limit = 64 << 10
	h.send(`{"method":"late","params":{"callId":"c_` + long + `","isError":false}}`)
	h.send(`{"method":"state","params":{"state":"` + long + `","session":{"id":"` + long + `","name":"` + long + `"}}}`)
	h.send(`{"method":"tools","params":{"hash":"` + long + `","tools":[` +
		`{"name":"tier","tier":"` + long + `","definition":{"name":"tier","inputSchema":{"type":"object"}}},` +
		`{"name":"source","tier":"write","source":"` + long + `","definition":{"name":"source","inputSchema":{"type":"object"}}},` +
		`{"name":"write","tier":"write","definition":{"name":"write","inputSchema":{"type":"object"}}}]}}`)
	answered := make(chan reply, 1)
	go func() { answered <- c.result("write", "{}") }()
	id, _ := h.call()
	h.send(fmt.Sprintf(`{"id":%d,"error":{"kind":"%s","message":"%s","executed":"no"}}`, id, long, long))
	if r := <-answered; r.status != 200 || len(r.body) > limit {
		t.Errorf("the caller got %d with %d bytes", r.status, len(r.body))
	}
	raw, err := json.Marshal(b.Status(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > limit {
		t.Errorf("the status has %d bytes", len(raw))
	}
	b.Stop(t) // everything is written
	files, err := os.ReadDir(b.Paths.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Size() > limit {
			t.Errorf("%s: %v bytes, %v", f.Name(), info.Size(), err)
		}
	}
}
