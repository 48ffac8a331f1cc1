package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fixtureArg makes this test binary an MCP server over stdio, so that `a2actl attach` has a program to attach.
const fixtureArg = "mcp-fixture-over-stdio"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == fixtureArg {
		if err := newFixture().Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == mirrorArg {
		if err := mirror(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// What the fixture's tools answer.
const (
	simpleText = "This is a simple text response for testing."
	errorText  = "This tool intentionally returns an error for testing"
	// stepWait lies between two progress notifications, as the conformance suite describes its tool.
	stepWait = 50 * time.Millisecond
)

// redPixel is a picture of one pixel.
func redPixel() []byte {
	img := image.NewRGBA(image.Rect(0, 0, 1, 1))
	img.Set(0, 0, color.RGBA{R: 255, A: 255})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // it always encodes
	}
	return b.Bytes()
}

// silence is one sample of 16 bits at 8 kHz.
const silence = "RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00" +
	"data\x02\x00\x00\x00\x00\x00"

// schema2020 is what must reach the client as it is.
const schema2020 = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
	`"$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
	`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"additionalProperties":false}`

// newFixture is a server with the catalogue that @modelcontextprotocol/conformance asks for, and a few tools that show
// what arrived: echo, count (calls so far) and hang (until it is cancelled).
func newFixture() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "fixture", Version: "1.0.0"}, nil)
	add := func(name, description, schema string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}, h)
	}
	const none = `{"type":"object"}`
	answer := func(blocks ...mcp.Content) mcp.ToolHandler {
		return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: blocks}, nil
		}
	}
	picture := &mcp.ImageContent{Data: redPixel(), MIMEType: "image/png"}
	add("test_simple_text", "Returns text", none, answer(&mcp.TextContent{Text: simpleText}))
	add("test_image_content", "Returns an image", none, answer(picture))
	add("test_audio_content", "Returns audio", none, answer(&mcp.AudioContent{Data: []byte(silence), MIMEType: "audio/wav"}))
	add("test_embedded_resource", "Returns a resource", none, answer(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
		URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content."}}))
	add("test_multiple_content_types", "Returns text, an image and a resource", none, answer(
		&mcp.TextContent{Text: "Multiple content types test:"}, picture,
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
			URI: "test://mixed-content-resource", MIMEType: "application/json", Text: `{"test":"data","value":123}`}}))
	add("test_error_handling", "Always fails", none, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: errorText}}}, nil
	})
	add("test_tool_with_progress", "Reports progress three times", none, withProgress)
	add("test_reconnection", "Answers on a stream that can be resumed", none, answer(&mcp.TextContent{Text: "Reconnection test completed"}))
	add("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", schema2020, answer(&mcp.TextContent{Text: "ok"}))

	add("echo", "Returns its text", `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`, echo)
	var hung hangs
	add("hang", "Answers once it is cancelled, after one progress notification", none, hung.hang)
	add("hangs", "Says how many calls of hang were begun and cancelled", none, hung.count)
	return s
}

func withProgress(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, done := range []float64{0, 50, 100} {
		if err := progress(ctx, r, done, ""); err != nil {
			return nil, err
		}
		select {
		case <-time.After(stepWait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Progress was reported."}}}, nil
}

func progress(ctx context.Context, r *mcp.CallToolRequest, done float64, message string) error {
	token := r.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token, Progress: done, Total: 100, Message: message})
}

func echo(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: args.Text}}}, nil
}

// hangs counts calls that wait for their end.
type hangs struct{ begun, cancelled atomic.Int64 }

func (h *hangs) hang(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	h.begun.Add(1)
	if err := progress(ctx, r, 1, "hanging"); err != nil {
		return nil, err
	}
	<-ctx.Done()
	h.cancelled.Add(1)
	return nil, ctx.Err()
}

func (h *hangs) count(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text := fmt.Sprintf("begun %d, cancelled %d", h.begun.Load(), h.cancelled.Load())
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

// textOf is all the text of a result.
func textOf(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}
