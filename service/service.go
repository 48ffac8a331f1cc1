package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/audit"
	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
	"github.com/a2a-bridge/a2a-bridge/internal/mcpfront"
)

// Config is what a daemon is started with. Everything else is in the files
// that the environment leads to.
type Config struct {
	Env      []string          // decides paths and overrides settings
	Flags    map[string]string // settings from the command line, by key
	HTTPAddr string            // listen here instead of where the settings say
	Stderr   io.Writer         // for the log
	Terminal bool              // and that is one
	Hurry    <-chan struct{}   // closed: a stop that waits for running calls ends now
	// HangupStops leaves SIGHUP to whoever ends ctx; else it means to reload.
	HangupStops bool
	Log         *slog.Logger  // instead of one on Stderr as the settings say
	Ready       func(Running) // called once, when every socket listens
}

// Running is where a daemon can be reached.
type Running struct {
	URL   string // of MCP
	Paths config.Paths
}

// daemon is one running bridge.
type daemon struct {
	cfg     Config
	paths   config.Paths
	live    inForce
	level   *slog.LevelVar
	log     *slog.Logger
	started time.Time

	lock      *localsock.Lock
	listeners *localsock.Listeners
	ledger    *audit.Ledger
	tokens    *auth.Store
	hub       *hub.Hub
	front     *mcpfront.Front
	http      *http.Server
	control   *http.Server
	conns     *connections // of http
	controls  *connections

	lastStop    *control.Stop
	findings    []control.Problem // of the start, they stay
	stopping    atomic.Bool
	serving     sync.WaitGroup // the Serve loops of http
	controlling sync.WaitGroup // and of control
	idle        idleClock
	refused     atomic.Pointer[[]config.Problem] // why the last reload changed nothing
	cuts        sync.Map                         // token id → when its streams were ended last
	reloads     sync.Mutex                       // one at a time
}

// Run builds a daemon, tells systemd and c.Ready when it listens, and returns
// when ctx has ended, or nothing was to be done for the idle time, and all is
// drained. The error is a *localsock.HeldError when another daemon owns the
// state directory.
func Run(ctx context.Context, c Config) error {
	d := &daemon{cfg: c, level: new(slog.LevelVar), started: time.Now()}
	if err := d.build(); err != nil {
		return errors.Join(err, d.close())
	}
	err := d.run(ctx)
	return errors.Join(err, d.close())
}

// env reads a variable; the last entry counts, as for a process.
func (c Config) env(key string) string {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(c.Env[i], key+"="); ok {
			return value
		}
	}
	return ""
}

// build makes the parts, lowest first.
func (d *daemon) build() error {
	var err error
	if d.paths, err = config.ResolvePaths(d.cfg.env, syscall.Getuid()); err != nil {
		return err
	}
	settings, problems := config.Load(d.paths.Config, d.cfg.Env, d.cfg.Flags)
	d.live.set(settings, problems)
	d.level.Set(settings.Log.Level)
	if d.log = d.cfg.Log; d.log == nil {
		d.log = newLog(d.cfg.Stderr, settings.Log.Format, d.level, d.cfg.Terminal)
	}
	for _, p := range problems {
		if p.From == config.CommandLine { // whoever typed it is there to read it
			return usageError{fmt.Errorf("--%s %s", flagName(p.Key), strings.TrimSuffix(p.Text, " (from "+p.From+")"))}
		}
	}
	for _, p := range d.configProblems(problems) {
		d.log.Error("the configuration is broken", "problem", p.Text, "fix", p.Fix)
	}
	if err := d.own(); err != nil {
		return err
	}
	if err := d.listen(settings); err != nil {
		return err
	}
	d.ledger, err = audit.Open(audit.Config{Dir: d.paths.State, MaxBytes: settings.Audit.MaxBytes, Keep: settings.Audit.Keep, Now: time.Now, Log: d.log})
	if err != nil {
		d.log.Error("calls with effects are refused until the ledger can be written", "err", err)
	}
	d.tokens = auth.Open(d.paths.Tokens, d.paths.TokenUse, time.Now)
	d.tokens.LogTo(d.log)
	d.hub, err = hub.New(hub.Config{
		Settings: hubSettings(settings), Ledger: d.ledger, StateDir: d.paths.State,
		Address: d.url, Version: bridge.Version(), Insecure: d.insecure, TokenNames: d.tokenNames, Seen: d.seenLately,
		Requests: d.verb, Now: time.Now, Log: d.log,
	})
	if err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	key, err := macKey(d.paths.State)
	if err != nil {
		d.find(control.Warn, "key", "MCP sessions will not outlive this daemon: "+err.Error(), "make "+d.paths.State+" writable")
	}
	d.front, err = mcpfront.New(mcpfront.Config{
		Hub: d.hub, Key: key, Body: settings.Limits.Body, Version: bridge.Version(), Now: time.Now, Log: d.log,
		Seen: func(p bridge.Peer, c bridge.Client, _ string) { d.tokens.Seen(p.Token, c) },
	})
	if err != nil {
		return fmt.Errorf("start the MCP front: %w", err)
	}
	d.conns = newConnections()
	d.http = newServer(&edge{live: &d.live, state: d.health, mcp: d.tokens.Middleware(mcpScope, admitted(d.front))}, d.log)
	d.http.ConnState = d.conns.track
	d.http.ConnContext = d.front.ConnContext
	d.controls = newConnections()
	d.control = newServer(d.controlHandler(), d.log)
	d.control.ConnState = d.controls.track
	return nil
}

// own takes the state directory. One that cannot be written is no reason not
// to answer: the parts say what they cannot keep.
func (d *daemon) own() error {
	lock, err := localsock.LockOwner(d.paths.State)
	var held *localsock.HeldError
	switch {
	case errors.As(err, &held):
		return fmt.Errorf("%w\ntry: a2actl status", err)
	case err != nil:
		d.log.Error("the state directory cannot be used", "err", err)
		d.find(control.Fail, "state", "nothing can be kept in "+d.paths.State+": "+err.Error(), "make it a directory of yours that can be written")
	}
	if fs, remote := machine.NetworkFS(d.paths.State); remote {
		d.find(control.Warn, "store", "the state directory is on a network file system ("+fs+"): two machines that share it must not both run a bridge", "XDG_STATE_HOME on a local disk")
	}
	d.lock = lock
	d.lastStop = readLastStop(d.paths.State)
	return nil
}

// listen opens the sockets, or says who has the port.
func (d *daemon) listen(settings config.Config) error {
	addr := settings.HTTP.Addr()
	if d.cfg.HTTPAddr != "" {
		addr = d.cfg.HTTPAddr
	}
	l, err := localsock.Listen(localsock.Config{HTTPAddr: addr, HostPath: d.paths.HostSocket, ControlPath: d.paths.ControlSocket})
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			if holder, ok := machine.PortHolder(addr); ok {
				return fmt.Errorf("cannot listen on %s: it is held by %s\ntry: stop it, or choose another port: a2a-bridge serve --http-port N   (existing peers need the new URL)%w", addr, holder, hidden{err})
			}
		}
		return err
	}
	d.listeners = l
	for _, p := range l.Problems {
		d.log.Warn("not every socket is there", "err", p)
		d.find(control.Fail, "socket", p.Error(), "systemctl --user status 'a2a-bridge*.socket'")
	}
	if d.insecure() {
		d.log.Warn("listening beyond loopback without TLS: whoever can read the network can take the tokens", "addr", l.HTTP[0].Addr().String())
		d.find(control.Warn, "insecure", "listening beyond loopback without TLS: whoever can read the network can take the tokens", "put a TLS proxy in front, or set http.host back to 127.0.0.1")
	}
	return nil
}

// hidden keeps an error findable without repeating its text.
type hidden struct{ error }

func (hidden) Error() string   { return "" }
func (h hidden) Unwrap() error { return h.error }

func (d *daemon) find(level, id, text, fix string) {
	d.findings = append(d.findings, control.Problem{ID: id, Level: level, Text: text, Fix: fix})
}

// close gives back what build took. It is safe after a build that failed.
func (d *daemon) close() error {
	var errs []error
	if d.listeners != nil {
		if err := d.listeners.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if d.tokens != nil {
		if err := d.tokens.Flush(); err != nil { // no reason to be started again
			d.log.Warn("the last uses of tokens were not written", "err", err)
		}
	}
	if d.ledger != nil {
		errs = append(errs, d.ledger.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Release())
	}
	return errors.Join(errs...)
}

// url is where MCP is, for people and clients on this machine.
func (d *daemon) url() string {
	addr := d.addr()
	if addr == "" {
		return ""
	}
	return "http://" + addr + "/mcp"
}

// addr is the first HTTP address; one that listens everywhere is named by
// loopback. It is empty when there is none.
func (d *daemon) addr() string {
	if len(d.listeners.HTTP) == 0 {
		return ""
	}
	host, port, err := net.SplitHostPort(d.listeners.HTTP[0].Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (d *daemon) insecure() bool {
	for _, l := range d.listeners.HTTP {
		host, _, err := net.SplitHostPort(l.Addr().String())
		if err != nil || !config.Loopback(host) {
			return true
		}
	}
	return false
}

func (d *daemon) tokenNames() []string {
	records, err := d.tokens.List()
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.Name)
	}
	return names
}

// lately is how long a peer counts as one after its last request.
const lately = 30 * 24 * time.Hour

// seenLately names the tokens that were used lately, the latest first.
func (d *daemon) seenLately() []string {
	now := time.Now()
	used := map[string]time.Time{}
	var names []string
	for _, name := range d.tokenNames() {
		if at, _ := d.tokens.Used(name); now.Sub(at) < lately {
			used[name] = at
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return used[b].Compare(used[a]) })
	return names
}

// health is the one word of healthz.
func (d *daemon) health() string {
	switch {
	case d.stopping.Load():
		return healthStopping
	case len(d.live.get().problems) > 0:
		return healthConfig
	}
	return healthOK
}
