package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Client asks one bridge.
type Client struct {
	url   string
	token func() string // a function, so that no printing of the struct shows it
	http  *http.Client
	ids   atomic.Int64
}

// dialTimeout bounds the connection alone: the address is on this machine or
// at the near end of a tunnel.
const dialTimeout = 5 * time.Second

// New returns a client for the MCP address url, such as
// http://127.0.0.1:7717/mcp. Without a token no Authorization is sent.
func New(url, token string) *Client {
	return &Client{
		url:   url,
		token: func() string { return token },
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:        (&net.Dialer{Timeout: dialTimeout}).DialContext,
				DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close gives up the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer with an HTTP status that is not the one of success.
type StatusError struct {
	Status int
	Body   string // its beginning: untrusted text
}

func (e *StatusError) Error() string { return fmt.Sprintf("the answer has status %d", e.Status) }

// RPCError is a JSON-RPC error.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"` // untrusted text
}

func (e *RPCError) Error() string { return fmt.Sprintf("the answer is the JSON-RPC error %d", e.Code) }

// ErrNotMCP says that something answered that does not speak MCP.
var ErrNotMCP = errors.New("the answer is not one of an MCP server")

// ErrLost says that an answer ended before its result and cannot be resumed.
var ErrLost = errors.New("the answer ended before the result came")

const (
	// maxAnswer bounds one answer or event: the largest result that a bridge
	// can pass on, and its envelope.
	maxAnswer = 32 << 20
	// maxErrorBody is as much of an error's body as is kept.
	maxErrorBody = 4 << 10
)

const (
	typeJSON = "application/json"
	typeSSE  = "text/event-stream"
)

// message is a JSON-RPC message of either kind.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// outcome returns what a response says.
func (m *message) outcome() (json.RawMessage, error) {
	switch {
	case m.Error != nil:
		return nil, m.Error
	case len(m.Result) == 0:
		return nil, fmt.Errorf("%w: it has neither result nor error", ErrNotMCP)
	}
	return m.Result, nil
}

// post sends one message. The caller closes the body.
func (c *Client) post(ctx context.Context, header http.Header, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // a call is never sent twice, not even on a connection that broke
	r.Header = header.Clone()
	r.Header.Set("Content-Type", typeJSON)
	r.Header.Set("Accept", typeJSON+", "+typeSSE)
	return c.send(r)
}

func (c *Client) send(r *http.Request) (*http.Response, error) {
	if token := c.token(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return c.http.Do(r)
}

// failure makes an error of an answer without success. A JSON-RPC error in its
// body says more than the status.
func failure(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came is enough
	var m message
	if json.Unmarshal(body, &m) == nil && m.Error != nil && m.Error.Code != 0 {
		return fmt.Errorf("%w: %w", &StatusError{Status: resp.StatusCode, Body: string(body)}, m.Error)
	}
	return &StatusError{Status: resp.StatusCode, Body: string(body)}
}

// answer reads the response to the request id out of a plain answer or a
// stream, passing progress on. For a stream that ends early it returns where
// to resume.
func answer(resp *http.Response, id string, onProgress func(string)) (json.RawMessage, position, error) {
	if resp.StatusCode != http.StatusOK {
		return nil, position{}, failure(resp)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case typeJSON:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		if err != nil {
			return nil, position{}, fmt.Errorf("%w: %w", ErrLost, err)
		}
		if len(body) > maxAnswer {
			return nil, position{}, fmt.Errorf("%w: it is larger than %d bytes", ErrNotMCP, maxAnswer)
		}
		var m message
		if json.Unmarshal(body, &m) != nil || string(m.ID) != id {
			return nil, position{}, ErrNotMCP
		}
		result, err := m.outcome()
		return result, position{}, err
	case typeSSE:
		return readStream(resp.Body, id, onProgress)
	}
	return nil, position{}, fmt.Errorf("%w: its type is %q", ErrNotMCP, kind)
}

// request is a JSON-RPC request.
type request struct {
	JSONRPC string `json:"jsonrpc"`
	ID      int64  `json:"id,omitempty"` // a notification has none
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

func (c *Client) request(method string, params any) request {
	return request{JSONRPC: "2.0", ID: c.ids.Add(1), Method: method, Params: params}
}
