package probe

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// modern is the revision of the stateless era that the methods of Client speak.
const modern = "2026-07-28"

// The keys of _meta that the stateless era wants with each request.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaServer       = "io.modelcontextprotocol/serverInfo"
)

// clientName is what we say of ourselves.
const clientName = "a2actl"

// Server is what a server says of itself.
type Server struct {
	Name     string
	Version  string
	Versions []string // of the protocol
}

// Tool is an entry of a server's list.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// Result is what a tool, or the bridge in its place, answered.
type Result struct {
	Raw     json.RawMessage // the whole CallToolResult
	IsError bool
	Text    string // its text blocks, one after the other

	// What a bridge adds to an error of its own; empty otherwise.
	Call     bridge.CallID
	Executed bridge.Executed
	Retry    bridge.Retry
}

func parseResult(raw json.RawMessage) (Result, error) {
	var r struct {
		IsError bool
		Content []struct{ Type, Text string }
		Meta    struct {
			Call     bridge.CallID   `json:"a2a-bridge/call"`
			Executed bridge.Executed `json:"a2a-bridge/executed"`
			Retry    bridge.Retry    `json:"a2a-bridge/retry"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Result{}, fmt.Errorf("%w: the result of the tool is malformed", ErrNotMCP)
	}
	var texts []string
	for _, block := range r.Content {
		if block.Type == "text" {
			texts = append(texts, block.Text)
		}
	}
	return Result{Raw: raw, IsError: r.IsError, Text: strings.Join(texts, "\n"),
		Call: r.Meta.Call, Executed: r.Meta.Executed, Retry: r.Meta.Retry}, nil
}

// Discover asks the server who it is. It is answered without a host.
func (c *Client) Discover(ctx context.Context) (Server, error) {
	raw, err := c.ask(ctx, "server/discover", "", map[string]any{}, nil)
	if err != nil {
		return Server{}, fmt.Errorf("discover: %w", err)
	}
	var r struct {
		SupportedVersions []string
		Meta              map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return Server{}, fmt.Errorf("discover: %w", ErrNotMCP)
	}
	s := Server{Versions: r.SupportedVersions}
	var info struct{ Name, Version string }
	if json.Unmarshal(r.Meta[metaServer], &info) == nil {
		s.Name, s.Version = info.Name, info.Version
	}
	return s, nil
}

// maxPages bounds a paged list: a bridge answers with one page.
const maxPages = 50

// ListTools returns the tools that our token may see.
func (c *Client) ListTools(ctx context.Context) ([]Tool, error) {
	tools, err := listTools(func(params map[string]any) (json.RawMessage, error) {
		return c.ask(ctx, "tools/list", "", params, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	return tools, nil
}

func listTools(page func(params map[string]any) (json.RawMessage, error)) ([]Tool, error) {
	var tools []Tool
	params := map[string]any{}
	for range maxPages {
		raw, err := page(params)
		if err != nil {
			return nil, err
		}
		var r struct {
			Tools      []Tool
			NextCursor string
		}
		if json.Unmarshal(raw, &r) != nil {
			return nil, ErrNotMCP
		}
		tools = append(tools, r.Tools...)
		if r.NextCursor == "" {
			return tools, nil
		}
		params = map[string]any{"cursor": r.NextCursor}
	}
	return nil, fmt.Errorf("%w: the list does not end", ErrNotMCP)
}

// CallTool calls a tool and waits for its result; onProgress, unless nil,
// hears its partial output. If the context ends first, the bridge cancels the
// call. An error of kind ErrLost means that the tool may have run.
func (c *Client) CallTool(ctx context.Context, name string, args json.RawMessage, onProgress func(string)) (Result, error) {
	raw, err := c.ask(ctx, "tools/call", name, callParams(name, args), onProgress)
	if err != nil {
		return Result{}, fmt.Errorf("call %s: %w", name, err)
	}
	return parseResult(raw)
}

func callParams(name string, args json.RawMessage) map[string]any {
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	return params
}

// ask sends one stateless request.
func (c *Client) ask(ctx context.Context, method, name string, params map[string]any, onProgress func(string)) (json.RawMessage, error) {
	req := c.request(method, params)
	meta := map[string]any{
		metaVersion:      modern,
		metaCapabilities: struct{}{},
		metaClient:       map[string]string{"name": clientName, "version": "1"},
	}
	if onProgress != nil {
		meta["progressToken"] = req.ID
	}
	params["_meta"] = meta
	header := http.Header{}
	header.Set("Mcp-Protocol-Version", modern)
	header.Set("Mcp-Method", method)
	if name != "" {
		header.Set("Mcp-Name", headerText(name))
	}
	resp, err := c.post(ctx, header, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _, err := answer(resp, strconv.FormatInt(req.ID, 10), onProgress)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return raw, err
}

// headerText is the form in which the protocol puts any text into a header.
func headerText(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for i := range len(s) {
		plain = plain && s[i] >= 0x20 && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}
