package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// The client's limits. A daemon that systemd starts on our connection has to
// come up first, so an answer may take a while; the dial itself never does.
const (
	dialTimeout   = 2 * time.Second
	answerTimeout = 10 * time.Second
	answerBytes   = 16 << 20 // a listing of calls is far below; this only bounds a stranger on the socket
)

// Unreachable says that nobody answers on the control socket.
type Unreachable struct {
	Path string
	Err  error
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("no daemon answers on %s: %v", u.Path, u.Err)
}

// Unwrap gives the system's reason.
func (u *Unreachable) Unwrap() error { return u.Err }

// Client talks to the daemon behind one control socket.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client; it connects when it is used.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout}
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		Timeout:   answerTimeout,
	}}
}

// Status asks for everything that the daemon knows of itself.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Paths asks for the places that the daemon uses.
func (c *Client) Paths(ctx context.Context) (Paths, error) {
	return call[Paths](ctx, c, http.MethodGet, "/v1/paths", nil)
}

// Tools names what the plain address offers.
func (c *Client) Tools(ctx context.Context) (ToolList, error) {
	return call[ToolList](ctx, c, http.MethodGet, "/v1/tools", nil)
}

// Reload makes the daemon read its configuration and tokens again; streams of
// tokens that are gone end at once.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	return call[Reloaded](ctx, c, http.MethodPost, "/v1/reload", struct{}{})
}

// Calls lists the newest calls, open ones included.
func (c *Client) Calls(ctx context.Context, limit int) (CallList, error) {
	return call[CallList](ctx, c, http.MethodGet, "/v1/calls?limit="+strconv.Itoa(limit), nil)
}

// Call shows one call; bridge.NotFound when there is none of that id.
func (c *Client) Call(ctx context.Context, id bridge.CallID) (CallRecord, error) {
	return call[CallRecord](ctx, c, http.MethodGet, "/v1/calls/"+url.PathEscape(string(id)), nil)
}

// CancelCall ends an open call; bridge.NotFound when none of that id is open.
func (c *Client) CancelCall(ctx context.Context, id bridge.CallID) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/calls/"+url.PathEscape(string(id))+"/cancel", struct{}{})
	return err
}

// UseHost pins the host behind the plain address, or lets the daemon pick.
func (c *Client) UseHost(ctx context.Context, m MainChoice) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/hosts/main", m)
	return err
}

// Pause stops calls from starting; zero means until Resume.
func (c *Client) Pause(ctx context.Context, d time.Duration) (PauseState, error) {
	return call[PauseState](ctx, c, http.MethodPost, "/v1/pause", pauseRequest{ForMS: d.Milliseconds()})
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context) (PauseState, error) {
	return call[PauseState](ctx, c, http.MethodPost, "/v1/resume", struct{}{})
}

// Metrics returns the counters in Prometheus' text form.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	return c.send(ctx, http.MethodGet, "/metrics", nil)
}

func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var out T
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return out, fmt.Errorf("encode %s: %w", path, err)
		}
	}
	answer, err := c.send(ctx, method, path, raw)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("read the daemon's answer to %s: %w", path, err)
	}
	return out, nil
}

func (c *Client) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://control"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, &Unreachable{Path: c.path, Err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return nil, &Unreachable{Path: c.path, Err: err}
	}
	if resp.StatusCode != http.StatusOK {
		e := &Error{}
		if json.Unmarshal(raw, e) != nil || e.Message == "" {
			e.Message = fmt.Sprintf("the daemon answered %s to %s: is it an older version? try: systemctl --user restart a2a-bridge.service", resp.Status, path)
		}
		return nil, e
	}
	return raw, nil
}
