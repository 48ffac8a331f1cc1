package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/probe"
	"github.com/a2a-bridge/a2a-bridge/internal/stdiohost"
	"github.com/a2a-bridge/a2a-bridge/service"
)

// The pace of the demo.
const (
	demoPatience = 10 * time.Second        // more than any step takes
	demoAway     = 1200 * time.Millisecond // how long the call is seen waiting
	demoPoll     = 20 * time.Millisecond
)

func newDemoCmd(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "see it work without omp, in a few seconds",
		Example: "  a2actl demo",
		Long: `Starts a bridge in a temporary directory with a small host built in, makes a
remote call, takes the host away, shows a call waiting, brings the host back,
and shows that the call ran once. Nothing of yours is read or changed.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.demo(cmd.Context(), keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "stay up afterwards and print what to paste")
	return cmd
}

// demo is one run: a home, a daemon, a host, a client.
type demo struct {
	a     *app
	home  string
	work  string // the file that the host's tool appends to
	at    service.Running
	env   []string
	began time.Time
	said  demoDoc
}

// demoDoc is `demo --json`.
type demoDoc struct {
	URL     string     `json:"url"`
	Steps   []demoStep `json:"steps"`
	WaitedS float64    `json:"waited_s"` // how long the call waited for a host
	Ran     int        `json:"ran"`      // how often it ran
	Result  string     `json:"result"`
	Token   string     `json:"token,omitempty"` // with --keep
	Env     []string   `json:"env,omitempty"`   // with --keep: how a2actl finds this bridge
}

type demoStep struct {
	AtS  float64 `json:"at_s"`
	Text string  `json:"text"`
}

func (a *app) demo(ctx context.Context, keep bool) (err error) {
	home, err := os.MkdirTemp("", "a2a")
	if err != nil {
		return fmt.Errorf("make a home for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	d := &demo{a: a, home: home, work: filepath.Join(home, "lines.txt"), began: a.now(), env: []string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config", "XDG_STATE_HOME=" + home + "/state", "XDG_RUNTIME_DIR=" + home,
	}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		cancel()
		err = errors.Join(err, <-stopped)
	}()
	if err := d.story(ctx, keep); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// start runs the daemon, on a port that nobody has.
func (d *demo) start(ctx context.Context) (<-chan error, error) {
	ready := make(chan service.Running, 1)
	stopped := make(chan error, 1)
	go func() {
		stopped <- service.Run(ctx, service.Config{Env: d.env, HTTPAddr: "127.0.0.1:0",
			Log:   slog.New(slog.NewTextHandler(d.a.errOut, &slog.HandlerOptions{Level: slog.LevelError})),
			Ready: func(r service.Running) { ready <- r }})
	}()
	select {
	case d.at = <-ready:
		return stopped, nil
	case err := <-stopped:
		return nil, fmt.Errorf("start a bridge: %w", err)
	case <-time.After(demoPatience):
		return nil, errors.New("the bridge did not start in time")
	}
}

// tell writes one line of the story; with --json it keeps it for the document,
// and --quiet wants the end only.
func (d *demo) tell(format string, args ...any) error {
	step := demoStep{AtS: tenths(d.a.now().Sub(d.began)), Text: fmt.Sprintf(format, args...)}
	d.said.Steps = append(d.said.Steps, step)
	if d.a.json || d.a.quiet {
		return nil
	}
	return d.a.print(fmt.Sprintf("%5.1f s  %s\n", step.AtS, step.Text))
}

func tenths(d time.Duration) float64 {
	return float64(d.Round(100*time.Millisecond).Milliseconds()) / 1000
}

func (d *demo) story(ctx context.Context, keep bool) error {
	store := auth.Open(d.at.Paths.Tokens, d.at.Paths.TokenUse, d.a.now)
	secret, _, err := store.Create(auth.CreateOptions{Name: "laptop"})
	if err != nil {
		return err
	}
	if err := d.tell("a bridge runs on %s, in a temporary directory", d.at.URL); err != nil {
		return err
	}
	leave := d.attach(ctx)
	defer func() { leave() }()
	if err := d.wait(ctx, func(s control.Status) bool { return s.Main.Attached && s.Catalogue.Tools > 0 && !s.Catalogue.Stale }); err != nil {
		return err
	}
	web := probe.New(d.at.URL, secret.Reveal())
	defer web.Close()
	client, err := web.Initialize(ctx)
	if err != nil {
		return err
	}
	tools, err := client.ListTools(ctx)
	if err != nil {
		return err
	}
	if err := d.tell("a host is attached; a remote client with a token lists its tools: %s", listed(tools)); err != nil {
		return err
	}
	text, err := d.call(ctx, client, "echo", "hello from another machine")
	if err != nil {
		return err
	}
	if err := d.tell("it calls echo: %q", text); err != nil {
		return err
	}
	if leave, err = d.callThatWaits(ctx, client, leave); err != nil {
		return err
	}
	switch {
	case keep:
		return d.stay(ctx, secret)
	case d.a.json:
		return d.a.emit(d.said)
	case d.a.quiet:
		return d.a.print(d.said.Steps[len(d.said.Steps)-1].Text + "\n")
	}
	return d.a.print("\nThat was all, and all of it is gone again. With your own omp: a2actl omp install\n")
}

// callThatWaits is the point of the demo.
func (d *demo) callThatWaits(ctx context.Context, client *probe.Session, leave func()) (func(), error) {
	leave()
	if err := d.wait(ctx, func(s control.Status) bool { return !s.Main.Attached }); err != nil {
		return leave, err
	}
	if err := d.tell("the host has left; the address stays. The client calls append all the same"); err != nil {
		return leave, err
	}
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	asked := d.a.now()
	go func() {
		text, err := d.call(ctx, client, "append", "one line")
		answered <- answer{text, err}
	}()
	if err := d.wait(ctx, func(s control.Status) bool { return s.Calls.Queued == 1 }); err != nil {
		return leave, err
	}
	if err := d.tell("status: 0 running, 1 waiting; nothing has run"); err != nil {
		return leave, err
	}
	select {
	case <-time.After(demoAway):
	case <-ctx.Done():
		return leave, ctx.Err()
	}
	leave = d.attach(ctx)
	var got answer
	select {
	case got = <-answered:
	case <-time.After(demoPatience):
		got.err = errors.New("the waiting call was not answered in time")
	case <-ctx.Done():
		got.err = ctx.Err()
	}
	if got.err != nil {
		return leave, got.err
	}
	ran, err := d.ran()
	if err != nil {
		return leave, err
	}
	if ran != 1 {
		return leave, fmt.Errorf("the call ran %d times instead of once", ran)
	}
	d.said.URL, d.said.WaitedS, d.said.Ran, d.said.Result = d.at.URL, tenths(d.a.now().Sub(asked)), ran, got.text
	return leave, d.tell("the host is back: waited %.1f s, ran once. Result: %q", d.said.WaitedS, got.text)
}

// attach runs the built-in host until the returned function is called.
func (d *demo) attach(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	host := stdiohost.Builtin(stdiohost.BuiltinConfig{Name: "demo", Version: bridge.Version(), AppendTo: d.work,
		Dial: unixDialer(d.at.Paths.HostSocket), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = host.Run(ctx) // it ends with ctx; what it did is seen from outside
	}()
	return func() {
		cancel()
		<-done
	}
}

// call runs a tool with a text and returns the text of its result.
func (d *demo) call(ctx context.Context, c *probe.Session, tool, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	args, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return "", err
	}
	result, err := c.CallTool(ctx, tool, args, nil)
	if err != nil {
		return "", err
	}
	if result.IsError {
		return "", fmt.Errorf("%s failed: %s", tool, result.Text)
	}
	return result.Text, nil
}

func listed(tools []probe.Tool) string {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, clean(t.Name))
	}
	return strings.Join(names, ", ")
}

// ran counts the lines that the tool appended.
func (d *demo) ran() (int, error) {
	raw, err := os.ReadFile(d.work)
	if err != nil {
		return 0, fmt.Errorf("look what ran: %w", err)
	}
	return strings.Count(string(raw), "\n"), nil
}

// wait polls the status until it is as wanted.
func (d *demo) wait(ctx context.Context, ok func(control.Status) bool) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	c := control.NewClient(d.at.Paths.ControlSocket)
	tick := time.NewTicker(demoPoll)
	defer tick.Stop()
	for {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if ok(s) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("a step took too long")
		}
	}
}

// stay keeps the bridge up until it is interrupted.
func (d *demo) stay(ctx context.Context, secret auth.Secret) error {
	if d.a.json {
		d.said.Token, d.said.Env = secret.Reveal(), d.env
		if err := d.a.emit(d.said); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	snippet, err := remoteConfig{client: clientCurl}.snippet("", d.at.URL, secret.Reveal())
	if err != nil {
		return err
	}
	if err := d.a.print("\nIt stays up until you press Ctrl-C. Paste this in another terminal:\n\n" + snippet + "\n" +
		"And look at it from outside:\n\n" + strings.Join(d.env, " ") + " a2actl status\n"); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
