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
	// refusalTimeout bounds how long a caller who gets nothing here may take to
	// send the rest of a body, which the server reads before it answers, and
	// then to take the answer. Without it anybody who reaches the port could
	// hold connections for ever.
	refusalTimeout = 10 * time.Second
)

// edge is the chain before the fronts: Host and Origin, then route, then auth.
// The order matters: discovery paths must be 404 and not 401, or clients start
// an OAuth dance; and a page from elsewhere must not even learn the routes.
type edge struct {
	live  *inForce // the settings in force
	state func() string
	mcp   http.Handler // with auth in front, and admitted behind that
}

// The words of healthz.
const (
	healthOK       = "ok"
	healthConfig   = "config"
	healthStopping = "stopping"
)

// brokenText is what every other route says while the configuration is broken.
const brokenText = "This bridge's configuration is broken; its owner sees why with: a2actl status"

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limitRefusal(w, r)
	if why := e.live.get().names.refusal(r); why != "" {
		plain(w, http.StatusForbidden, why)
		return
	}
	state := e.state()
	switch {
	case r.URL.Path == "/healthz":
		health(w, r, state)
	case state == healthConfig:
		plain(w, http.StatusServiceUnavailable, brokenText)
	case isMCP(r.URL.EscapedPath()) && isMCP(r.URL.Path): // no slash in a host's name, however it is written
		e.mcp.ServeHTTP(w, r)
	default:
		plain(w, http.StatusNotFound, "There is nothing at this address. MCP is at /mcp.")
	}
}

// limitRefusal sets the deadlines of a request that may be refused. Writers
// without deadlines do without.
func limitRefusal(w http.ResponseWriter, r *http.Request) {
	rc, now := http.NewResponseController(w), time.Now()
	_ = rc.SetWriteDeadline(now.Add(2 * refusalTimeout))
	if r.ContentLength != 0 { // else the server itself reads on, to notice a caller who leaves
		_ = rc.SetReadDeadline(now.Add(refusalTimeout))
	}
}

// admitted passes a request on that was not refused: how long it may take is
// the front's to say.
func admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Time{})
		if r.ContentLength != 0 {
			_ = rc.SetReadDeadline(time.Time{})
		}
		next.ServeHTTP(w, r)
	})
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
		// "OPTIONS *" goes through the same checks as everything else.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
