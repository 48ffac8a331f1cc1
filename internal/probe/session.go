package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// legacy is the newest revision with sessions.
const legacy = "2025-11-25"

// Session is a session of the older era. It outlives restarts of the bridge.
type Session struct {
	Server Server

	c       *Client
	id      string
	version string
}

// Initialize begins a session. It is answered without a host.
func (c *Client) Initialize(ctx context.Context) (*Session, error) {
	s, err := c.initialize(ctx)
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return s, nil
}

func (c *Client) initialize(ctx context.Context) (*Session, error) {
	req := c.request("initialize", map[string]any{
		"protocolVersion": legacy,
		"capabilities":    struct{}{},
		"clientInfo":      map[string]string{"name": clientName, "version": "1"},
	})
	resp, err := c.post(ctx, http.Header{}, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _, err := answer(resp, strconv.FormatInt(req.ID, 10), nil)
	if err != nil {
		return nil, err
	}
	var r struct {
		ProtocolVersion string
		ServerInfo      struct{ Name, Version string }
	}
	if json.Unmarshal(raw, &r) != nil || r.ProtocolVersion == "" {
		return nil, ErrNotMCP
	}
	s := &Session{c: c, id: resp.Header.Get("Mcp-Session-Id"), version: r.ProtocolVersion,
		Server: Server{Name: r.ServerInfo.Name, Version: r.ServerInfo.Version, Versions: []string{r.ProtocolVersion}}}
	return s, s.notify(ctx, "notifications/initialized")
}

func (s *Session) header() http.Header {
	h := http.Header{}
	h.Set("Mcp-Protocol-Version", s.version)
	if s.id != "" {
		h.Set("Mcp-Session-Id", s.id)
	}
	return h
}

func (s *Session) notify(ctx context.Context, method string) error {
	resp, err := s.c.post(ctx, s.header(), request{JSONRPC: "2.0", Method: method})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusOK {
		return failure(resp)
	}
	return nil
}

// ListTools returns the tools that our token may see.
func (s *Session) ListTools(ctx context.Context) ([]Tool, error) {
	tools, err := listTools(func(params map[string]any) (json.RawMessage, error) {
		return s.ask(ctx, "tools/list", params, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	return tools, nil
}

// CallTool calls a tool and waits for its result, resuming a stream that
// breaks (the bridge restarted) until the context ends; onProgress, unless
// nil, hears the partial output. An error of kind ErrLost means that the tool
// may have run.
func (s *Session) CallTool(ctx context.Context, name string, args json.RawMessage, onProgress func(string)) (Result, error) {
	raw, err := s.ask(ctx, "tools/call", callParams(name, args), onProgress)
	if err != nil {
		return Result{}, fmt.Errorf("call %s: %w", name, err)
	}
	return parseResult(raw)
}

func (s *Session) ask(ctx context.Context, method string, params map[string]any, onProgress func(string)) (json.RawMessage, error) {
	req := s.c.request(method, params)
	if onProgress != nil {
		params["_meta"] = map[string]any{"progressToken": req.ID}
	}
	resp, err := s.c.post(ctx, s.header(), req)
	if err != nil {
		return nil, err
	}
	id := strconv.FormatInt(req.ID, 10)
	raw, at, err := answer(resp, id, onProgress)
	_ = resp.Body.Close()
	for errors.Is(err, ErrLost) && at.id != "" && ctx.Err() == nil {
		raw, at, err = s.resume(ctx, at, id, onProgress)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return raw, err
}

// Pauses before a stream is resumed: what the server asks for, within reason.
const (
	defaultRetry = time.Second
	maxRetry     = 10 * time.Second
)

// resume waits and asks for the rest of a stream. A bridge that cannot be
// reached counts as one more loss at the same position.
func (s *Session) resume(ctx context.Context, at position, id string, onProgress func(string)) (json.RawMessage, position, error) {
	pause := at.retry
	if pause == 0 {
		pause = defaultRetry
	}
	timer := time.NewTimer(min(pause, maxRetry))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, at, ErrLost
	case <-timer.C:
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.c.url, nil)
	if err != nil {
		return nil, position{}, err
	}
	r.Header = s.header()
	r.Header.Set("Accept", typeSSE)
	r.Header.Set("Last-Event-ID", at.id)
	resp, err := s.c.send(r)
	if err != nil {
		return nil, at, fmt.Errorf("%w: %w", ErrLost, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK { // not ours any more
		return nil, position{}, fmt.Errorf("%w: resume: %w", ErrLost, failure(resp))
	}
	raw, next, err := answer(resp, id, onProgress)
	if next.id == "" {
		next.id = at.id
	}
	if next.retry == 0 {
		next.retry = at.retry
	}
	return raw, next, err
}

// Close ends the session; calls that still run in it are cancelled.
func (s *Session) Close(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.c.url, nil)
	if err != nil {
		return err
	}
	r.Header = s.header()
	resp, err := s.c.send(r)
	if err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("end session: %w", failure(resp))
	}
	return nil
}
