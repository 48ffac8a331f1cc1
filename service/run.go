package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
)

// The times of a daemon's life that no setting changes.
const (
	drainTime    = 5 * time.Second        // for plain answers at a stop; systemd waits 15 s
	silentTime   = 200 * time.Millisecond // of drainTime, before the wait is worth a word
	closeTime    = time.Second            // for each part that is left after that
	tick         = time.Second            // how often the idle clock and the status line are looked at
	flushEvery   = time.Minute            // last uses of tokens
	exerciseTime = 5 * time.Second        // a hub that takes longer is stuck
	drainPoll    = 10 * time.Millisecond
	acceptPause  = 100 * time.Millisecond // after an accept that failed, as for want of descriptors
)

// run serves until ctx ends, a part fails or the bridge was idle long enough,
// and then drains.
func (d *daemon) run(ctx context.Context) error {
	work, finish := context.WithCancel(context.WithoutCancel(ctx))
	defer finish()
	g, work := errgroup.WithContext(work)
	g.Go(func() error { return untilDone(work, d.hub.Run(work)) })
	for _, l := range d.listeners.HTTP {
		d.serving.Add(1)
		g.Go(func() error {
			defer d.serving.Done()
			return serve(d.http, l)
		})
	}
	for _, l := range d.listeners.Control {
		d.controlling.Add(1)
		g.Go(func() error {
			defer d.controlling.Done()
			return serve(d.control, &localsock.SameUserListener{Listener: l, Refused: d.foreign})
		})
	}
	for _, l := range d.listeners.Host {
		g.Go(func() error {
			return d.acceptHosts(work, g, &localsock.SameUserListener{Listener: l, Refused: d.foreign})
		})
	}
	idle := make(chan struct{})
	g.Go(func() error { return d.tick(work, idle) })
	g.Go(func() error { return d.feedWatchdog(work) })
	if !d.cfg.HangupStops {
		g.Go(func() error { return d.hearSignals(work) })
	}

	if d.health() == healthOK {
		d.log.Info("ready", "url", d.url(), "pid", os.Getpid(), "activated", d.listeners.Activated)
	} else {
		d.log.Warn("listening, but every route answers 503 until the configuration is mended", "url", d.url(), "pid", os.Getpid())
	}
	d.notify(localsock.Ready())
	if d.cfg.Ready != nil {
		d.cfg.Ready(Running{URL: d.url(), Paths: d.paths})
	}

	reason := "told to stop"
	select {
	case <-ctx.Done():
	case <-idle:
		reason = "nothing to do"
	case <-work.Done():
		reason = "a part failed"
	}
	d.log.Info("stopping", "reason", reason)
	d.drain(context.WithoutCancel(ctx))
	finish()
	err := g.Wait()
	writeLastStop(d.paths.State, reason, d.log)
	return err
}

// drain lets no accepted request fall. The order is the point: net/http drops
// a request that it has read once Shutdown was called, so Shutdown comes last.
func (d *daemon) drain(ctx context.Context) {
	d.notify(localsock.Stopping())
	d.stopping.Store(true)
	d.unlisten(slices.Concat(d.listeners.HTTP, d.listeners.Host))
	d.serving.Wait()
	d.front.EndStreams()
	d.hub.Refuse()
	patience, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	d.awaitAnswers(patience)
	rest, cancelRest := context.WithTimeout(ctx, closeTime)
	defer cancelRest()
	d.hub.Stop(rest) // what is open now hears that the bridge restarted

	d.unlisten(d.listeners.Control) // until now, status was to be had
	d.controlling.Wait()
	asked, cancelAsked := context.WithTimeout(ctx, closeTime)
	defer cancelAsked()
	d.controls.settle(asked)

	last, cancelLast := context.WithTimeout(ctx, closeTime)
	defer cancelLast()
	for _, s := range []*http.Server{d.http, d.control} {
		if err := s.Shutdown(last); err != nil {
			d.log.Warn("requests were still open at the end", "err", err)
			_ = s.Close()
		}
	}
}

// awaitAnswers gives calls whose callers cannot come back the time to end, and
// says so if that takes any.
func (d *daemon) awaitAnswers(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	soon, cancel := context.WithTimeout(ctx, silentTime)
	d.conns.settle(soon)
	cancel()
	n := d.conns.busy()
	if n == 0 {
		return
	}
	text := fmt.Sprintf("stopping: %d calls still run; waiting for them up to %d s.", n, drainTime/time.Second)
	callers := "their callers are"
	if n == 1 {
		text = fmt.Sprintf("stopping: 1 call still runs; waiting for it up to %d s.", drainTime/time.Second)
		callers = "its caller is"
	}
	if d.cfg.Terminal {
		text += " Ctrl-C again stops now (" + callers + ` told "may have run")`
	}
	d.log.Info(text)
	go func() {
		select {
		case <-d.cfg.Hurry: // nil: never
			d.log.Info("stopping now")
			stop()
		case <-ctx.Done():
		}
	}()
	d.conns.settle(ctx)
}

func (d *daemon) unlisten(listeners []net.Listener) {
	for _, l := range listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			d.log.Warn("a listener did not close", "err", err)
		}
	}
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// acceptHosts gives each connection of a host its own goroutine in the group.
func (d *daemon) acceptHosts(ctx context.Context, g *errgroup.Group, l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			d.log.Warn("a host could not be accepted", "err", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		g.Go(func() error {
			if err := d.hub.Attach(ctx, c); err != nil && ctx.Err() == nil && !d.stopping.Load() {
				d.log.Info("a host's link ended", "err", err)
			}
			return nil
		})
	}
}

func (d *daemon) foreign(err error) {
	d.log.Warn("a connection from another user was refused", "err", err)
}

// tick keeps what changes by itself: the idle clock, the peers that hosts
// show, systemd's status line, the last uses of tokens.
func (d *daemon) tick(ctx context.Context, idle chan<- struct{}) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	var line string
	var peers []string
	flushed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if now := d.peerNames(); !slices.Equal(now, peers) {
			peers = now
			d.hub.SetPeers(peers)
		}
		if now := d.statusLine(); now != line {
			line = now
			d.notify(localsock.Status(line))
		}
		if time.Since(flushed) >= flushEvery {
			flushed = time.Now()
			if err := d.tokens.Flush(); err != nil {
				d.log.Warn("the last uses of tokens were not written", "err", err)
			}
		}
		limit := d.live.get().IdleAfter(d.listeners.Activated)
		if d.idle.look(d.isIdle(), time.Now(), limit) {
			close(idle)
			return nil
		}
	}
}

// isIdle asks each part.
func (d *daemon) isIdle() bool { return d.hub.Idle() && d.front.Idle() && d.conns.busy() == 0 }

func (d *daemon) statusLine() string {
	c := d.hub.Counts()
	host := "no omp session"
	if m := d.hub.Main(); m.Attached {
		host = fmt.Sprintf("%q attached", m.Name)
	}
	state := ""
	if h := d.health(); h != healthOK {
		state = h + "; "
	}
	return fmt.Sprintf("%s%s; %d running, %d waiting; %s", state, host, c.Running, c.Queued, d.url())
}

// feedWatchdog proves to systemd that the hub still works, and not only that
// a timer does.
func (d *daemon) feedWatchdog(ctx context.Context) error {
	every, err := localsock.Watchdog()
	if err != nil {
		d.log.Warn("the watchdog's setting cannot be read", "err", err)
	}
	if err != nil || every == 0 {
		return nil
	}
	t := time.NewTicker(every / 2)
	defer t.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, exerciseTime)
		err := d.hub.Exercise(limited)
		cancel()
		if err == nil {
			d.notify(localsock.Alive())
		} else if ctx.Err() == nil {
			d.log.Error("the hub does not answer", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func (d *daemon) hearSignals(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			if _, err := d.Reload(ctx); err != nil {
				d.log.Error("reload failed", "err", err)
			}
		}
	}
}

// notify logs what systemd could not be told.
func (d *daemon) notify(err error) {
	if err != nil {
		d.log.Warn("systemd was not told", "err", err)
	}
}

// untilDone makes the end of a context no failure.
func untilDone(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// idleClock measures how long nothing has been going on.
type idleClock struct {
	mu    sync.Mutex
	since time.Time // zero: busy
	limit time.Duration
}

// look reports whether the time is up; a limit of 0 never is.
func (c *idleClock) look(idle bool, now time.Time, limit time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	if !idle {
		c.since = time.Time{}
		return false
	}
	if c.since.IsZero() {
		c.since = now
	}
	return limit > 0 && now.Sub(c.since) >= limit
}

// end is when the time is up if nothing happens; zero: never or busy.
func (c *idleClock) end() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() || c.limit <= 0 {
		return time.Time{}
	}
	return c.since.Add(c.limit)
}

// connections counts what http.Server is working on.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]http.ConnState
}

func newConnections() *connections { return &connections{open: map[net.Conn]http.ConnState{}} }

func (c *connections) track(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == http.StateNew || s == http.StateActive {
		c.open[conn] = s
	} else {
		delete(c.open, conn)
	}
}

func (c *connections) busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// settle waits until no connection is new or active.
func (c *connections) settle(ctx context.Context) {
	t := time.NewTicker(drainPoll)
	defer t.Stop()
	for c.busy() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
