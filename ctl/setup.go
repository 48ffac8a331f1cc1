package ctl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/contrib"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// The first words of setup's lines.
const (
	okWord   = "ok"
	todoWord = "todo"
	failWord = "FAIL"
	nextWord = "next"
)

// nextStep is what comes after a setup that found everything well.
const nextStep = "connect another machine:  a2actl print-remote-config laptop"

// line is one finding: what about which part, and further lines below it.
type line struct {
	Word string   `json:"level"`
	Part string   `json:"part"`
	Text []string `json:"text"`
}

func (l line) String() string {
	var b strings.Builder
	word, part := l.Word, l.Part
	for _, text := range l.Text {
		if l.Part == "" {
			fmt.Fprintf(&b, "%-6s%s\n", word, text)
		} else {
			fmt.Fprintf(&b, "%-6s%-11s%s\n", word, part, text)
		}
		word, part = "", ""
	}
	return b.String()
}

// setup collects what is found and done.
type setup struct {
	a     *app
	c     *changes
	lines []line
}

func (s *setup) add(word, part, text string, more ...string) {
	s.lines = append(s.lines, line{word, part, append([]string{text}, more...)})
}

func newSetupCmd(a *app) *cobra.Command {
	var port string
	var dry bool
	cmd := &cobra.Command{
		Use:     "setup",
		Short:   "turn it on for this user, install the omp extension, check",
		Example: "  a2actl setup\n  a2actl setup --dry-run",
		Long: `Enables and starts the systemd user sockets (and writes the units first, unless
a package has brought them), installs the omp extension, and checks that the
bridge answers. What is right already is left alone, so it can be run again at
any time. It needs no root. a2actl service uninstall undoes it.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := &setup{a: a, c: &changes{a: a, dry: dry}}
			if err := s.run(cmd.Context(), port); err != nil {
				return err
			}
			return s.report()
		},
	}
	cmd.Flags().StringVar(&port, "port", "", "listen on port `N` instead, or on the first free one with auto")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would be written and run")
	return cmd
}

func (s *setup) run(ctx context.Context, port string) error {
	if err := checkPort(port); err != nil {
		return err
	}
	if _, err := s.a.paths(); err != nil {
		return err
	}
	units, err := s.a.lookUnits(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if port != "" {
			return withTry(fmt.Errorf("--port moves the socket of systemd: %w", err), "a2a-bridge serve --http-port N")
		}
		return s.without(ctx, err)
	}
	t := &turnOn{a: s.a, c: s.c, units: units, retry: "a2actl setup"}
	if port != "" {
		t.retry += " --port " + port
	}
	if t.port, err = choosePort(port, units); err != nil {
		return err
	}
	p, err := t.do(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.fail("socket", err)
		return nil // an extension without a bridge would be of no use
	}
	if !s.c.dry {
		s.add(okWord, "socket", fmt.Sprintf("%s enabled, listening on %s", packaging.HTTPSocket, address(t.port)))
		s.add(okWord, "daemon", fmt.Sprintf("%s answered in %s", shortVersion(deref(p.status.Daemon.Version)), millis(p.took)))
	}
	if err := s.extension(ctx, p); err != nil {
		return err
	}
	s.problems(ctx)
	s.add(nextWord, "", nextStep)
	return nil
}

// without is setup where no systemd can be told anything: a bridge that runs
// all the same is as good.
func (s *setup) without(ctx context.Context, why error) error {
	status, err := s.a.status(ctx)
	if err != nil || status.State == control.StateUnreachable {
		s.fail("socket", why)
		return s.extension(ctx, proof{})
	}
	s.add(okWord, "daemon", fmt.Sprintf("%s answers at %s (started without systemd)", shortVersion(deref(status.Daemon.Version)), status.URL))
	if err := s.extension(ctx, proof{status: status}); err != nil {
		return err
	}
	s.problems(ctx)
	s.add(nextWord, "", nextStep)
	return nil
}

// fail adds an error with its ways out.
func (s *setup) fail(part string, err error) {
	var held *heldError
	var f *failure
	more := []string{}
	switch {
	case errors.As(err, &held):
		more = held.fixes()
	case errors.As(err, &f) && f.try != "":
		more = []string{"fix: " + f.try}
	}
	text := strings.Split(err.Error(), "\n")
	for i, t := range text {
		text[i] = clean(t)
	}
	s.add(failWord, part, text[0], append(text[1:], more...)...)
}

// extension installs what lets omp attach, and looks for omp.
func (s *setup) extension(ctx context.Context, p proof) error {
	e, err := s.a.extensionOf()
	if err != nil {
		return err
	}
	there, err := e.look()
	if err != nil {
		s.fail("omp", err)
		return nil
	}
	if there.differs() {
		err := s.c.do("write   "+e.dir+" (the omp extension "+shortVersion(contrib.Version())+")", func() error {
			_, err := e.install()
			return err
		})
		if err != nil {
			return err
		}
	}
	omp, found := machine.FindOMP(ctx, s.a.env)
	if !found {
		s.add(todoWord, "omp", "the bridge extension is installed, but no omp was found in PATH or ~/.bun/bin", "fix: install omp 18.1, then start it")
		return nil
	}
	text := strings.TrimSpace(clean(omp.Version) + ", bridge extension installed")
	var attached []string
	for _, h := range p.status.Hosts {
		attached = append(attached, strconv.Quote(clean(h.Name)))
	}
	if len(attached) > 0 {
		text += ", attached: " + strings.Join(attached, ", ")
	}
	s.add(okWord, "omp", text)
	if there.differs() {
		s.add(todoWord, "omp", "start omp, or restart a running one: it loads extensions at start")
	}
	return nil
}

// problems are what status would name.
func (s *setup) problems(ctx context.Context) {
	if s.c.dry {
		return
	}
	status, err := s.a.status(ctx)
	if err != nil {
		return // the bridge has just answered; status will say what is wrong since
	}
	for _, p := range status.Problems {
		word, text := p.Level, clean(p.Text)
		if p.Level == control.Fail {
			word = failWord
		}
		if p.ID == "linger" {
			text = "off: the bridge sleeps when your last login here ends"
		}
		more := []string{}
		if p.Fix != "" {
			more = append(more, "fix: "+clean(p.Fix))
		}
		s.add(word, p.ID, text, more...)
	}
}

// report prints the plan of a dry run, or the findings.
func (s *setup) report() error {
	failed := false
	for _, l := range s.lines {
		failed = failed || l.Word == failWord
	}
	var err error
	switch {
	case s.a.json:
		err = s.a.emit(map[string]any{"dry_run": s.c.dry, "changes": append([]string{}, s.c.list...), "lines": s.lines, "ok": !failed})
	case s.c.dry && !failed:
		text := strings.Join(s.c.list, "\n") + "\n"
		if len(s.c.list) == 0 {
			text = "nothing to do\n"
		}
		err = s.a.print(text)
	default:
		var b strings.Builder
		for _, l := range s.lines {
			b.WriteString(l.String())
		}
		err = s.a.print(b.String())
	}
	if err == nil && failed {
		return silent(exitFailed)
	}
	return err
}

// autoPorts is how many ports "auto" looks at: as many users share a machine.
const autoPorts = 200

// portAuto is the value of --port that lets us choose.
const portAuto = "auto"

func checkPort(flag string) error {
	if flag == "" || flag == portAuto {
		return nil
	}
	if port, err := strconv.Atoi(flag); err != nil || port < 1 || port > 65535 {
		return usage("a2actl setup --port 7718", "--port takes a number from 1 to 65535, or auto, not %q", flag)
	}
	return nil
}

// choosePort reads --port. Without it, the port stays what it is: an address
// that peers know never moves by itself.
func choosePort(flag string, u userUnits) (int, error) {
	now := u.port()
	switch flag {
	case "":
		return now, nil
	case portAuto:
		if u.socket().Active == "active" || portFree(now, "") == nil {
			return now, nil
		}
		for port := packaging.Port; port < packaging.Port+autoPorts; port++ {
			if portFree(port, "") == nil {
				return port, nil
			}
		}
		return 0, fmt.Errorf("no port from %d to %d is free", packaging.Port, packaging.Port+autoPorts-1)
	}
	return strconv.Atoi(flag)
}

// millis is a short time as people read it.
func millis(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
