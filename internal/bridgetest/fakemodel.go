package bridgetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// ModelStep is one answer of the scripted model.
type ModelStep struct {
	Text   string
	Tool   string         // the model calls this tool
	Args   map[string]any // with these arguments
	Status int            // an HTTP error instead
	// Hold keeps the answer from ending until the channel is closed: the turn is streaming.
	Hold <-chan struct{}
}

// FakeModel is a language model on loopback that speaks from a script, one step for each request. Requests after
// its last step are answered with the text "script exhausted".
type FakeModel struct {
	URL string // base URL for models.yml

	mu       sync.Mutex
	script   []ModelStep
	requests []json.RawMessage
}

// StartFakeModel serves the script until the test ends.
func StartFakeModel(t testing.TB, script ...ModelStep) *FakeModel {
	t.Helper()
	m := &FakeModel{script: script}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.CloseClientConnections) // runs before Close, which waits for held answers
	t.Cleanup(srv.Close)
	m.URL = srv.URL + "/v1"
	return m
}

// Add lets the script go on.
func (m *FakeModel) Add(steps ...ModelStep) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script, steps...)
}

// Requests returns the bodies of the requests so far.
func (m *FakeModel) Requests() []json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]json.RawMessage(nil), m.requests...)
}

func (m *FakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":[{"id":"fake-1"}]}`)
		return
	}
	var body json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	step, n := m.next(body)
	if step.Status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(step.Status)
		fmt.Fprint(w, `{"error":{"message":"scripted"}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta map[string]any, finish any) {
		data, err := json.Marshal(map[string]any{
			"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "fake-1",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
			"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		})
		if err != nil {
			panic(err) // the script holds something that is no JSON
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	if step.Text != "" {
		chunk(map[string]any{"content": step.Text}, nil)
	}
	if step.Hold != nil {
		select {
		case <-step.Hold:
		case <-r.Context().Done():
			return
		}
	}
	finish := "stop"
	if step.Tool != "" {
		args, err := json.Marshal(step.Args)
		if err != nil {
			panic(err)
		}
		finish = "tool_calls"
		chunk(map[string]any{"tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("call_%d", n), "type": "function",
			"function": map[string]any{"name": step.Tool, "arguments": string(args)},
		}}}, nil)
	}
	chunk(map[string]any{}, finish)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (m *FakeModel) next(body json.RawMessage) (ModelStep, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, body)
	n := len(m.requests)
	if len(m.script) == 0 {
		return ModelStep{Text: "script exhausted"}, n
	}
	step := m.script[0]
	m.script = m.script[1:]
	return step, n
}
