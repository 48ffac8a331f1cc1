package stdiohost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	// revision is what we offer; an older one that the child picks is as good:
	// tools are listed and called alike in all of them.
	revision = "2025-11-25"
	// Bounds on a catalogue: it has to fit into one frame with room to spare.
	maxPages     = 1000
	maxTools     = 10000
	maxToolBytes = 16 << 20
)

// initialize opens the session.
func (s *session) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, initLimit)
	defer cancel()
	result, err := s.ask(ctx, "initialize", map[string]any{
		"protocolVersion": revision,
		"capabilities":    struct{}{},
		"clientInfo":      map[string]string{"name": "a2a-bridge", "version": "1"},
	})
	if err != nil {
		return fmt.Errorf("initialize the program: %w", err)
	}
	var got struct {
		Revision string `json:"protocolVersion"`
		Server   struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"serverInfo"`
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("read how the program introduces itself: %w", err)
	}
	s.log.Info("the program is ready", "name", got.Server.Name, "version", got.Server.Version, "revision", got.Revision)
	return s.notify("notifications/initialized", nil)
}

// list reads all pages of the child's tools and reports them. After the first
// list, one that cannot be read leaves the old one standing.
func (s *session) list(ctx context.Context, first bool, report func([]bridge.Tool)) error {
	limited, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	tools, err := s.allTools(limited)
	var refused *rpcError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused) && refused.Code == methodNotFound:
		tools = nil // a program without tools
	case err != nil && first:
		return err
	case err != nil:
		s.log.Warn("the program's tools could not be listed", "err", err)
		return nil
	}
	report(tools)
	return nil
}

func (s *session) allTools(ctx context.Context) ([]bridge.Tool, error) {
	var tools []bridge.Tool
	size := 0
	params := map[string]string{}
	seen := map[string]bool{}
	for range maxPages {
		raw, err := s.ask(ctx, "tools/list", params)
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		var page struct {
			Tools []json.RawMessage `json:"tools"`
			Next  string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("read a page of tools: %w", err)
		}
		for _, definition := range page.Tools {
			t, err := tool(definition)
			if err != nil {
				s.log.Warn("a tool was left out", "err", err)
				continue
			}
			if size += len(definition); len(tools) >= maxTools || size > maxToolBytes {
				return nil, fmt.Errorf("list tools: more than %d or over %d bytes", maxTools, maxToolBytes)
			}
			tools = append(tools, t)
		}
		if page.Next == "" {
			return tools, nil
		}
		if seen[page.Next] {
			return nil, errors.New("list tools: the pages go in a circle")
		}
		seen[page.Next] = true
		params = map[string]string{"cursor": page.Next}
	}
	return nil, fmt.Errorf("list tools: more than %d pages", maxPages)
}

// tool makes a catalogue entry of an MCP Tool object. Only what the program
// says literally makes it read-only.
func tool(definition json.RawMessage) (bridge.Tool, error) {
	var d struct {
		Name        string `json:"name"`
		Annotations struct {
			ReadOnly json.RawMessage `json:"readOnlyHint"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(definition, &d); err != nil {
		return bridge.Tool{}, fmt.Errorf("read a tool: %w", err)
	}
	if d.Name == "" {
		return bridge.Tool{}, errors.New("a tool without a name")
	}
	t := bridge.Tool{Name: d.Name, Source: "mcp", Definition: definition}
	if string(d.Annotations.ReadOnly) == "true" {
		t.Tier = bridge.TierRead
	}
	return t, nil
}

// callTool runs one tool. The arguments and the result pass as they are.
func (s *session) callTool(ctx context.Context, name string, args json.RawMessage, progress func(string)) (json.RawMessage, *hostlink.Error) {
	id, p, err := s.start("tools/call", progress, func(id int64) []byte { return callParams(id, name, args) })
	switch {
	case errors.Is(err, errChildLost): // nothing was sent
		return nil, &hostlink.Error{Kind: hostlink.KindNotReady, Executed: bridge.ExecutedNo, Message: err.Error()}
	case err != nil:
		return nil, fault(err, bridge.ExecutedUnknown)
	}
	select {
	case <-ctx.Done():
		s.forget(id)
		if err := s.notify("notifications/cancelled", map[string]any{"requestId": id, "reason": context.Cause(ctx).Error()}); err != nil {
			s.log.Debug("tell the program of a cancel", "err", err)
		}
		return nil, &hostlink.Error{Kind: hostlink.KindCancelled, Executed: bridge.ExecutedUnknown, Message: "cancelled"}
	case a := <-p.answer:
		var long *hostlink.TooLongError
		switch {
		case errors.As(a.err, &long):
			return nil, &hostlink.Error{Kind: hostlink.KindResultTooLarge, Executed: bridge.ExecutedYes, Message: a.err.Error()}
		case a.err != nil:
			return nil, fault(a.err, bridge.ExecutedUnknown)
		case a.failure != nil:
			return errorResult(a.failure.Error()), nil
		}
		return a.result, nil
	}
}

func fault(err error, executed bridge.Executed) *hostlink.Error {
	return &hostlink.Error{Kind: hostlink.KindFault, Executed: executed, Message: err.Error()}
}

// callParams splices the arguments in untouched.
func callParams(id int64, name string, args json.RawMessage) []byte {
	quoted, _ := json.Marshal(name) // a string: it cannot fail
	b := make([]byte, 0, len(args)+len(quoted)+64)
	b = append(b, `{"name":`...)
	b = append(b, quoted...)
	b = append(b, `,"arguments":`...)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	b = append(b, args...)
	b = append(b, `,"_meta":{"progressToken":`...)
	b = strconv.AppendInt(b, id, 10)
	return append(b, '}', '}')
}

// errorResult makes a tool's error of a JSON-RPC error, so that the model
// behind the caller sees its text.
func errorResult(text string) json.RawMessage {
	return result(text, true)
}

func result(text string, isError bool) json.RawMessage {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	raw, _ := json.Marshal(struct { // strings and a bool: it cannot fail
		Content []block `json:"content"`
		IsError bool    `json:"isError,omitempty"`
	}{[]block{{"text", text}}, isError})
	return raw
}
