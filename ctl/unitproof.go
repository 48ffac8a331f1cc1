package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// The bounds of the proof that the bridge answers.
const (
	proveTime  = 25 * time.Second       // a cold start takes a tenth of a second, on a busy machine many times that
	proveOnce  = 3 * time.Second        // after that, is it worth to go on waiting?
	provePause = 100 * time.Millisecond // between attempts that fail at once
	healthSize = 64                     // one word
)

// proof is what was seen of a bridge that answers.
type proof struct {
	status control.Status
	took   time.Duration
}

// old reports whether another version answers than this a2actl's.
func (p proof) old() bool { return deref(p.status.Daemon.Version) != bridge.Version() }

// prove asks the bridge through both of its doors, the control socket and the
// HTTP port, until it answers. When it does not, the error says why, and retry
// is the command to type once that is mended.
func (a *app) prove(ctx context.Context, port int, retry string) (proof, error) {
	paths, err := a.paths()
	if err != nil {
		return proof{}, err
	}
	client := control.NewClient(paths.ControlSocket)
	addr := address(port)
	ctx, cancel := context.WithTimeout(ctx, proveTime)
	defer cancel()
	for {
		p, err := proveNow(ctx, client, addr)
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil || errors.Is(err, errElsewhere) || a.hopeless(ctx) {
			err = fmt.Errorf("the bridge does not answer: %w", err)
			var gone *control.Unreachable
			if errors.As(err, &gone) {
				err = errors.New(goneText(gone))
			}
			return p, a.explain(context.WithoutCancel(ctx), port, err, retry)
		}
		select {
		case <-ctx.Done():
		case <-time.After(provePause):
		}
	}
}

// errElsewhere says that the bridge is well, but not where it should be.
var errElsewhere = errors.New("another file decides on the port")

func proveNow(ctx context.Context, client *control.Client, addr string) (proof, error) {
	ctx, cancel := context.WithTimeout(ctx, proveOnce)
	defer cancel()
	start := time.Now()
	s, err := client.Status(ctx)
	if err != nil {
		return proof{}, err
	}
	p := proof{status: s, took: time.Since(start)}
	if !s.HTTP.Listening {
		return p, errors.New("the daemon has no HTTP port")
	}
	if s.HTTP.Addr != addr {
		return p, fmt.Errorf("it listens on %s, not on %s: %w", clean(s.HTTP.Addr), addr, errElsewhere)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return p, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return p, fmt.Errorf("%s does not answer: %w", addr, err)
	}
	defer resp.Body.Close()
	word, err := io.ReadAll(io.LimitReader(resp.Body, healthSize))
	if err != nil {
		return p, err
	}
	// A broken configuration answers 503 too: the bridge is there, and status says what to mend.
	if said := strings.TrimSpace(string(word)); said == "stopping" {
		return p, errors.New("it is stopping")
	}
	return p, nil
}

// hopeless reports whether waiting longer will not help.
func (a *app) hopeless(ctx context.Context) bool {
	u, err := a.lookUnits(ctx)
	if err != nil {
		return true
	}
	service := u.unit(packaging.Service)
	return u.socket().Active == "failed" || service.Active == "failed" || service.Sub == "auto-restart"
}

// The ends of a service that mean something: systemd's own numbers, and the
// daemon's for a state directory that has another owner.
const (
	statusExec      = 203
	statusUser      = 217
	statusCaps      = 218
	statusNamespace = 226
	statusHeld      = 73
)

// explain says what is behind a failure, as far as the units tell; what they do
// not tell is the failure itself.
func (a *app) explain(ctx context.Context, port int, cause error, retry string) error {
	u, err := a.lookUnits(ctx)
	if err != nil {
		return err
	}
	service := u.unit(packaging.Service)
	failing := service.Active == "failed" || service.Sub == "auto-restart" || service.Active == "activating"
	var held *heldError
	switch {
	case u.socket().Active == "failed" && errors.As(portFree(port, retry), &held):
		return held
	case u.socket().Active == "failed":
		return withTry(fmt.Errorf("%s failed (%s)", packaging.HTTPSocket, clean(u.socket().Result)),
			"journalctl --user -n 20 -u "+packaging.HTTPSocket)
	case errors.Is(cause, errElsewhere):
		return withTry(cause, "systemctl --user cat "+packaging.HTTPSocket)
	case !failing || service.MainStatus == 0:
	case service.MainStatus == statusUser, service.MainStatus == statusCaps, service.MainStatus == statusNamespace:
		mask := u.dir + "/" + packaging.Sandbox
		return withTry(fmt.Errorf("this machine gives no user namespaces, which the sandbox of %s needs (status %d)", packaging.Service, service.MainStatus),
			fmt.Sprintf("mkdir -p %s.d && ln -sf /dev/null %s && systemctl --user daemon-reload && systemctl --user restart %s",
				u.dir+"/"+packaging.Service, mask, packaging.Service))
	case service.MainStatus == statusExec:
		return withTry(fmt.Errorf("%s cannot start its program", packaging.Service), "a2actl service install, with a2a-bridge beside a2actl")
	case service.MainStatus == statusHeld:
		return withTry(errors.New("another a2a-bridge runs already, started by hand"), "stop it, then again")
	default:
		return withTry(fmt.Errorf("%s ended with status %d, and is tried again each second", packaging.Service, service.MainStatus),
			"journalctl --user -n 20 -u "+packaging.Service)
	}
	return orTry(cause, "systemctl --user status "+strings.Join(unitNames, " "))
}

// unitProblem is what status says when systemd has the sockets, or would have
// them, and nobody answers.
func (a *app) unitProblem(ctx context.Context, port int, cause error) control.Problem {
	var gone *control.Unreachable
	if errors.As(cause, &gone) {
		cause = errors.New(goneText(gone))
	}
	err := withFixes(a.explain(ctx, port, cause, "a2actl service start"))
	p := control.Problem{ID: "daemon", Level: control.Fail, Text: err.Error()}
	var f *failure
	if errors.As(err, &f) {
		p.Fix = f.try
	}
	return p
}

// heldError says who has a port.
type heldError struct {
	addr   string
	port   int
	holder machine.Holder
	known  bool
	retry  string // the command to type again
}

func (h *heldError) Error() string {
	if !h.known {
		return h.addr + " is in use already"
	}
	return fmt.Sprintf("%s is held by %s", h.addr, clean(h.holder.String()))
}

// fixes are the ways out, best first.
func (h *heldError) fixes() []string {
	if h.known && h.holder.PID == 0 {
		return []string{"fix: on a shared machine:  a2actl setup --port auto"}
	}
	return []string{
		"fix: stop it, then  " + h.retry,
		fmt.Sprintf("or use another port:  a2actl setup --port %d   (existing peers need the new URL)", h.port%65535+1),
	}
}

// portFree tries the port; the error is a *heldError when somebody has it.
func portFree(port int, retry string) error {
	addr := address(port)
	l, err := net.Listen("tcp", addr) //nolint:noctx // binding does not wait
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return withTry(fmt.Errorf("cannot listen on %s: %w", addr, err), "a2actl setup --port auto")
	}
	h := &heldError{addr: addr, port: port, retry: retry}
	h.holder, h.known = machine.PortHolder(addr)
	return h
}

func address(port int) string { return net.JoinHostPort(packaging.Host, strconv.Itoa(port)) }
