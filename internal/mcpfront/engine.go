package mcpfront

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// instructions is what every client is told about this server.
const instructions = "These tools run in a coding agent's session on another machine, on the terms of its owner. " +
	"While no session is attached, a call waits a little. Every error says whether the tool ran and whether calling again is safe."

// engine is mcp-go, reduced to the methods whose answers it composes. Messages
// reach it rebuilt from our own parse, never as they came; ids are ours both
// ways, since it would round large ones.
type engine struct {
	server   *server.MCPServer
	identity json.RawMessage // serverInfo
}

func newEngine(version string) (*engine, error) {
	identity, err := json.Marshal(mcp.Implementation{Name: "a2a-bridge", Version: version})
	if err != nil {
		return nil, fmt.Errorf("encode the server's identity: %w", err)
	}
	return &engine{
		server: server.NewMCPServer("a2a-bridge", version,
			server.WithToolCapabilities(true), server.WithInstructions(instructions)),
		identity: identity,
	}, nil
}

// initialize negotiates a session revision. asked is what the client wants,
// whatever it is.
func (e *engine) initialize(ctx context.Context, asked string, client bridge.Client) (json.RawMessage, string, error) {
	params, err := json.Marshal(map[string]any{
		"protocolVersion": asked,
		"capabilities":    struct{}{},
		"clientInfo":      map[string]string{"name": client.Name, "version": client.Version},
	})
	if err != nil {
		return nil, "", fmt.Errorf("encode initialize: %w", err)
	}
	answer := e.handle(ctx, mcp.MethodInitialize, params)
	response, ok := answer.(mcp.JSONRPCResponse)
	if !ok {
		return nil, "", fmt.Errorf("initialize was answered with %T", answer)
	}
	result, ok := response.Result.(mcp.InitializeResult)
	if !ok {
		return nil, "", fmt.Errorf("initialize resulted in %T", response.Result)
	}
	raw, err := json.Marshal(result)
	return raw, result.ProtocolVersion, err
}

// discover answers server/discover.
func (e *engine) discover(ctx context.Context, params json.RawMessage) (json.RawMessage, *fault) {
	return resultOf(e.handle(ctx, mcp.MethodServerDiscover, params))
}

// listen runs subscriptions/listen until ctx ends. acked is called once, before
// it returns, with the acknowledgement to send and whether list changes were
// asked for; ids in it are what tag says.
func (e *engine) listen(ctx context.Context, params, tag json.RawMessage, acked func(message []byte, tools bool)) (json.RawMessage, *fault) {
	s := &listener{make(chan mcp.JSONRPCNotification, 1)}
	done := make(chan mcp.JSONRPCMessage, 1)
	go func() {
		done <- e.handle(e.server.WithContext(ctx, s), mcp.MethodSubscriptionsListen, params)
	}()
	var answer mcp.JSONRPCMessage
	select {
	case n := <-s.notes:
		s.acknowledge(n, tag, acked)
		answer = <-done
	case answer = <-done: // refused, or there was nothing to listen to
		select {
		case n := <-s.notes:
			s.acknowledge(n, tag, acked)
		default:
		}
	}
	if response, ok := answer.(mcp.JSONRPCResponse); ok {
		if result, ok := response.Result.(mcp.SubscriptionsListenResult); ok {
			result.EnsureResultMeta().SetMetaField(mcp.MetaKeySubscriptionID, tag)
			response.Result = result
			answer = response
		}
	}
	return resultOf(answer)
}

func (e *engine) handle(ctx context.Context, method mcp.MCPMethod, params json.RawMessage) mcp.JSONRPCMessage {
	message := append([]byte(`{"jsonrpc":"2.0","id":1,"method":`), quote(string(method))...)
	if params != nil {
		message = append(append(message, `,"params":`...), params...)
	}
	return e.server.HandleMessage(ctx, append(message, '}'))
}

// resultOf takes mcp-go's answer out of its envelope.
func resultOf(answer mcp.JSONRPCMessage) (json.RawMessage, *fault) {
	var err error
	switch a := answer.(type) {
	case mcp.JSONRPCResponse:
		var raw json.RawMessage
		if raw, err = json.Marshal(a.Result); err == nil {
			return raw, nil
		}
	case mcp.JSONRPCError:
		return nil, &fault{http.StatusBadRequest, a.Error.Code, a.Error.Message, nil}
	default:
		err = errors.New("no answer")
	}
	return nil, &fault{http.StatusInternalServerError, mcp.INTERNAL_ERROR, err.Error(), nil}
}

// listener is mcp-go's idea of a session: all that it sends through it is the
// acknowledgement.
type listener struct{ notes chan mcp.JSONRPCNotification }

func (*listener) Initialize()                                           {}
func (*listener) Initialized() bool                                     { return true }
func (*listener) SessionID() string                                     { return "" }
func (l *listener) NotificationChannel() chan<- mcp.JSONRPCNotification { return l.notes }

func (l *listener) acknowledge(n mcp.JSONRPCNotification, tag json.RawMessage, acked func([]byte, bool)) {
	n.Params.Meta = map[string]any{mcp.MetaKeySubscriptionID: tag}
	filter, _ := n.Params.AdditionalFields["notifications"].(mcp.SubscriptionFilter)
	message, err := json.Marshal(n)
	if err != nil {
		return
	}
	acked(message, filter.ToolsListChanged)
}
