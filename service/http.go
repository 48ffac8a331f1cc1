package service

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// The limits of the HTTP server that no setting changes. There is no write
// timeout: streams and long calls live until either side leaves, and the front
// bounds each write.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 3 * time.Minute
	headerBytes   = 64 << 10
)

// edge is the chain before the fronts: Host and Origin, then route, then auth.
// The order matters: discovery paths must be 404 and not 401, or clients start
// an OAuth dance; and a page from elsewhere must not even learn the routes.
type edge struct {
	live  *inForce // the settings in force
	state func() string
	mcp   http.Handler // with auth in front
}

// The words of healthz, and of every route while the bridge cannot serve.
const (
	healthOK       = "ok"
	healthConfig   = "config"
	healthStopping = "stopping"
)

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if why := e.live.get().names.refusal(r); why != "" {
		plain(w, http.StatusForbidden, why)
		return
	}
	state := e.state()
	switch {
	case r.URL.Path == "/healthz":
		health(w, r, state)
	case state == healthConfig:
		plain(w, http.StatusServiceUnavailable, healthConfig)
	case isMCP(r.URL.EscapedPath()):
		e.mcp.ServeHTTP(w, r)
	default:
		plain(w, http.StatusNotFound, "There is nothing at this address. MCP is at /mcp.")
	}
}

// isMCP knows /, /mcp and /mcp/{host}.
func isMCP(path string) bool {
	if path == "/" || path == "/mcp" {
		return true
	}
	host, ok := strings.CutPrefix(path, "/mcp/")
	return ok && host != "" && !strings.Contains(host, "/")
}

func mcpScope(*http.Request) bridge.Scope { return bridge.ScopeMCP }

func health(w http.ResponseWriter, r *http.Request, state string) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		plain(w, http.StatusMethodNotAllowed, "GET only")
	case state != healthOK:
		plain(w, http.StatusServiceUnavailable, state)
	default:
		plain(w, http.StatusOK, healthOK)
	}
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text) // a caller who has gone needs no answer
}

// newServer is the same server for both kinds of sockets.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
