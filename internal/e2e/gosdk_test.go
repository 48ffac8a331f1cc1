package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// session is a connected client of the Go SDK.
type session struct{ *mcp.ClientSession }

// goClient connects in the given revision; empty is the SDK's own choice.
func goClient(t *testing.T, b *bridgetest.Bridge, revision string, onProgress func(*mcp.ProgressNotificationParams)) session {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if onProgress != nil {
				onProgress(r.Params)
			}
		},
	})
	transport := &mcp.StreamableClientTransport{Endpoint: b.URL,
		HTTPClient: &http.Client{Transport: bearer(token(t, b, "go-sdk"))}}
	s, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the bridge may have gone
	return session{s}
}

func (s session) call(t *testing.T, name string, args any) *mcp.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return r
}

func (s session) text(t *testing.T, name string, args any) string {
	t.Helper()
	return textOf(s.call(t, name, args))
}

func TestGoSDKListsCallsProgressesAndCancelsInEveryRevision(t *testing.T) {
	t.Parallel()
	for _, revision := range mcp.SupportedProtocolVersions() {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			b := startFixture(t)
			if diff := diffSeen(wantSeen(revision), throughGoSDK(t, b, revision)); diff != "" {
				t.Errorf("the client saw something else (-want +got):\n%s", diff)
			}
		})
	}
}

// throughGoSDK does what clients/sdk.mjs does.
func throughGoSDK(t *testing.T, b *bridgetest.Bridge, revision string) seen {
	t.Helper()
	type token = string
	var mu sync.Mutex
	progress := map[token][]float64{}
	running := make(chan struct{})
	var once sync.Once
	s := goClient(t, b, revision, func(p *mcp.ProgressNotificationParams) {
		mu.Lock()
		defer mu.Unlock()
		name := p.ProgressToken.(token)
		progress[name] = append(progress[name], p.Progress)
		if name == "hang" {
			once.Do(func() { close(running) })
		}
	})
	withToken := func(name token) *mcp.CallToolParams {
		p := &mcp.CallToolParams{Name: name, Arguments: map[string]any{}}
		p.SetProgressToken(name)
		return p
	}

	got := seen{Revision: s.InitializeResult().ProtocolVersion}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for _, tool := range list.Tools {
		got.Tools = append(got.Tools, tool.Name)
		if tool.Name == "json_schema_2020_12_tool" {
			if got.Schema, err = json.Marshal(tool.InputSchema); err != nil {
				t.Fatal(err)
			}
		}
	}

	got.Echo = s.text(t, "echo", map[string]string{"text": wantSeen("").Echo})
	for _, block := range s.call(t, "test_multiple_content_types", nil).Content {
		switch block.(type) {
		case *mcp.TextContent:
			got.Blocks = append(got.Blocks, "text")
		case *mcp.ImageContent:
			got.Blocks = append(got.Blocks, "image")
		case *mcp.EmbeddedResource:
			got.Blocks = append(got.Blocks, "resource")
		}
	}
	failed := s.call(t, "test_error_handling", nil)
	got.Failed = []any{failed.IsError, textOf(failed)}
	unknown := s.call(t, "no_such_tool", nil)
	got.Unknown = []any{unknown.IsError, unknown.Meta["a2a-bridge/executed"]}

	r, err := s.CallTool(t.Context(), withToken("test_tool_with_progress"))
	if err != nil {
		t.Fatalf("call with progress: %v", err)
	}
	got.Progressed = textOf(r)
	bridgetest.Eventually(t, "the handler has seen all progress", func() bool {
		mu.Lock()
		defer mu.Unlock()
		got.Progress = append([]float64(nil), progress["test_tool_with_progress"]...)
		return len(got.Progress) >= 3
	})

	got.Parallel = make([]string, 10)
	var all sync.WaitGroup
	for i := range got.Parallel {
		all.Go(func() {
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo",
				Arguments: map[string]string{"text": fmt.Sprintf("parallel %d", i)}})
			if err != nil {
				t.Errorf("parallel call %d: %v", i, err)
				return
			}
			got.Parallel[i] = textOf(r)
		})
	}
	all.Wait()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, withToken("hang"))
		answered <- err
	}()
	select {
	case <-running:
	case err := <-answered:
		t.Fatalf("hang answered by itself: %v", err)
	}
	cancel()
	if got.Cancelled = "answered"; <-answered != nil {
		got.Cancelled = "threw"
	}
	bridgetest.Eventually(t, "the tool is cancelled", func() bool {
		got.Hangs = s.text(t, "hangs", nil)
		return got.Hangs == "begun 1, cancelled 1"
	})
	got.After = s.text(t, "echo", map[string]string{"text": "still here"})
	return got
}
