package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// The server's limits.
const (
	requestBytes = 64 << 10
	listDefault  = 20
	listMost     = 1000
)

// Statuser tells how things are.
type Statuser interface {
	Status(ctx context.Context) Status
}

// Placer tells where things are.
type Placer interface {
	Paths() Paths
}

// Reloader reads configuration and tokens again. An error means that nothing
// was taken over at all.
type Reloader interface {
	Reload(ctx context.Context) (Reloaded, error)
}

// Caller looks at calls. Show and Cancel return bridge.NotFound.
type Caller interface {
	Recent(n int) ([]CallRecord, error)
	Show(id bridge.CallID) (CallRecord, error)
	Cancel(id bridge.CallID) error
}

// Lister names the tools behind the plain address.
type Lister interface {
	Tools() ToolList
}

// Chooser picks the host behind the plain address; bridge.NotFound for a name
// that was never seen.
type Chooser interface {
	Use(name string) error
	UseAuto() error
}

// Pauser is the red button; zero pauses until Resume.
type Pauser interface {
	Pause(d time.Duration) (PauseState, error)
	Resume() (PauseState, error)
}

// Config is what a Server shows.
type Config struct {
	Status  Statuser
	Paths   Placer
	Reload  Reloader
	Calls   Caller
	Hosts   Chooser
	Tools   Lister
	Pause   Pauser
	Metrics http.Handler
	Log     *slog.Logger
}

// NewServer returns the handler of the control socket.
func NewServer(c Config) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, requestBytes)
			answer, err := f(r)
			reply(w, c.Log, r.URL.Path, answer, err)
		})
	}
	handle("GET /v1/status", func(r *http.Request) (any, error) { return c.Status.Status(r.Context()), nil })
	handle("GET /v1/paths", func(*http.Request) (any, error) { return c.Paths.Paths(), nil })
	handle("GET /v1/tools", func(*http.Request) (any, error) { return c.Tools.Tools(), nil })
	handle("POST /v1/reload", func(r *http.Request) (any, error) { return c.Reload.Reload(r.Context()) })
	handle("GET /v1/calls", func(r *http.Request) (any, error) {
		records, err := c.Calls.Recent(limitOf(r))
		return CallList{Calls: records}, err
	})
	handle("GET /v1/calls/{id}", func(r *http.Request) (any, error) {
		return c.Calls.Show(bridge.CallID(r.PathValue("id")))
	})
	handle("POST /v1/calls/{id}/cancel", func(r *http.Request) (any, error) {
		return struct{}{}, c.Calls.Cancel(bridge.CallID(r.PathValue("id")))
	})
	handle("POST /v1/hosts/main", func(r *http.Request) (any, error) {
		var m MainChoice
		if err := read(r, &m); err != nil {
			return nil, err
		}
		if m.Auto {
			return struct{}{}, c.Hosts.UseAuto()
		}
		return struct{}{}, c.Hosts.Use(m.Name)
	})
	handle("POST /v1/pause", func(r *http.Request) (any, error) {
		var p pauseRequest
		if err := read(r, &p); err != nil {
			return nil, err
		}
		if p.ForMS < 0 {
			return nil, &Error{Kind: bridge.BadArguments, Message: "a pause cannot be shorter than nothing"}
		}
		return c.Pause.Pause(time.Duration(min(p.ForMS, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
	})
	handle("POST /v1/resume", func(*http.Request) (any, error) { return c.Pause.Resume() })
	mux.Handle("GET /metrics", c.Metrics)
	return mux
}

func limitOf(r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || n <= 0 {
		return listDefault
	}
	return min(n, listMost)
}

func read(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return &Error{Kind: bridge.BadArguments, Message: "the request is not the JSON that this version expects: " + err.Error()}
	}
	return nil
}

// codes maps kinds to statuses; the kind itself travels in the body.
var codes = map[bridge.Kind]int{
	bridge.NotFound:     http.StatusNotFound,
	bridge.Conflict:     http.StatusConflict,
	bridge.BadArguments: http.StatusBadRequest,
	bridge.Stopping:     http.StatusServiceUnavailable,
}

func reply(w http.ResponseWriter, log *slog.Logger, path string, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		e := &Error{Message: err.Error()}
		var kind bridge.Kind
		if errors.As(err, &kind) {
			e.Kind = kind
		}
		code, ok := codes[kind]
		if !ok {
			code = http.StatusInternalServerError
		}
		w.WriteHeader(code)
		answer = e
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Debug("control answer not delivered", "path", path, "err", err)
	}
}
