package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
)

// app is what every command stands on.
type app struct {
	in          io.Reader
	out, errOut io.Writer
	environ     []string
	now         func() time.Time

	columns int // of the terminal; 0: as wide as it likes

	json, quiet bool   // global flags
	config      string //
}

// env reads a variable; --config stands in for A2A_BRIDGE_CONFIG.
func (a *app) env(key string) string {
	if key == "A2A_BRIDGE_CONFIG" && a.config != "" {
		if abs, err := filepath.Abs(a.config); err == nil {
			return abs
		}
		return a.config
	}
	for i := len(a.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(a.environ[i], key+"="); ok {
			return value
		}
	}
	return ""
}

// paths works out where everything is.
func (a *app) paths() (config.Paths, error) {
	p, err := config.ResolvePaths(a.env, syscall.Getuid())
	var none *config.NoFileError
	if errors.As(err, &none) {
		return p, &failure{err: err, code: exitUsage}
	}
	return p, err
}

// files is paths for what needs no socket: without a place for the sockets
// their paths are empty and reason says why.
func (a *app) files() (p config.Paths, reason, err error) {
	p, err = a.paths()
	var runtime *config.RuntimeError
	var long *config.SocketTooLong
	switch {
	case errors.As(err, &long):
		p.HostSocket, p.ControlSocket = "", "" // no address can be made of them
		return p, err, nil
	case errors.As(err, &runtime):
		return p, err, nil
	}
	return p, nil, err
}

// client talks to the daemon; it connects when it is used.
func (a *app) client() (*control.Client, error) {
	p, err := a.paths()
	if err != nil {
		return nil, err
	}
	return control.NewClient(p.ControlSocket), nil
}

// ask runs one exchange with the daemon and puts an unreachable one into words.
func ask[T any](a *app, ctx context.Context, do func(*control.Client) (T, error)) (T, error) {
	var zero T
	c, err := a.client()
	if err != nil {
		return zero, err
	}
	v, err := do(c)
	var gone *control.Unreachable
	if errors.As(err, &gone) {
		return zero, withTry(fmt.Errorf("%s%w", goneText(gone), hidden{err}), a.startHint())
	}
	if err != nil && ctx.Err() != nil {
		return zero, ctx.Err()
	}
	return v, err
}

// hidden keeps an error findable without repeating its text.
type hidden struct{ error }

func (hidden) Error() string   { return "" }
func (h hidden) Unwrap() error { return h.error }

// goneText is why nobody answers, without an errno and without plumbing.
func goneText(gone *control.Unreachable) string {
	switch {
	case errors.Is(gone.Err, fs.ErrNotExist), errors.Is(gone.Err, syscall.ECONNREFUSED):
		return "a2a-bridge is not running"
	case errors.Is(gone.Err, fs.ErrPermission):
		return "cannot reach a2a-bridge: its control socket belongs to another user"
	case errors.Is(gone.Err, io.EOF), errors.Is(gone.Err, syscall.ECONNRESET):
		return "cannot reach a2a-bridge: it hung up"
	}
	return "cannot reach a2a-bridge: it does not answer in time"
}

// startHint is what starts the daemon on this machine.
func (a *app) startHint() string {
	if machine.UnitInstalled("a2a-bridge.socket", a.env) {
		return "systemctl --user enable --now a2a-bridge.socket"
	}
	return "a2a-bridge serve"
}

// restartHint is what restarts it.
func (a *app) restartHint() string {
	if machine.UnitInstalled("a2a-bridge.socket", a.env) {
		return "systemctl --user restart a2a-bridge.service"
	}
	return "stop the daemon, then: a2a-bridge serve"
}

// print writes to stdout.
func (a *app) print(s string) error {
	_, err := io.WriteString(a.out, s)
	return err
}

// say writes words for a person to stderr. That they are not read is no failure.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.errOut, format+"\n", args...)
	}
}

// emit prints one JSON document.
func (a *app) emit(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
