package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/stdiohost"
)

func newAttachCmd(a *app) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "attach [--name N] -- CMD ARGS…",
		Short:   "give any program that speaks MCP over stdio an address",
		Example: "  a2actl attach --name files -- npx -y @modelcontextprotocol/server-filesystem .",
		Long: `Runs the program and attaches it to the bridge as a host until it is
interrupted; once it has answered, it is started again when it ends. Its tools run without an
approval gate: whoever has a token for them can call them.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("a2actl attach --name files -- CMD ARGS…", "attach needs a program to run")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := a.paths()
			if err != nil {
				return err
			}
			if err := a.reachable(cmd.Context(), paths.HostSocket); err != nil {
				a.say("No bridge answers yet%s; the program is attached as soon as one does: %s", reasonOf(err), a.startHint())
			}
			p := stdiohost.New(stdiohost.Config{
				Name: name, Command: args, Version: bridge.Version(), Dial: unixDialer(paths.HostSocket),
				Stderr: a.errOut, Log: a.log(),
				OnWelcome: func(w stdiohost.Welcome) { a.say("%s", attachedText(w)) },
			})
			return attachFailure(p.Run(cmd.Context()), args)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the `NAME` in its address (default: the directory's)")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// attachFailure says what to look at when a program could not be attached.
func attachFailure(err error, command []string) error {
	program := clean(command[0])
	var not *stdiohost.NotMCPError
	switch {
	case errors.As(err, &not):
		return withTry(err, "run it by hand and see what it says: "+clean(strings.Join(command, " ")))
	case errors.Is(err, exec.ErrNotFound):
		return &failure{err: fmt.Errorf("there is no program %q in PATH", program), try: "its whole path: a2actl attach -- /path/to/" + filepath.Base(program), code: exitNotFound}
	case errors.Is(err, fs.ErrNotExist):
		return &failure{err: fmt.Errorf("there is no program %s", program), try: "ls -l " + filepath.Dir(program), code: exitNotFound}
	case errors.Is(err, fs.ErrPermission):
		return withTry(fmt.Errorf("%s cannot be run", program), "chmod +x "+program)
	}
	return err
}

func attachedText(w stdiohost.Welcome) string {
	line := "a2a: attached as \"" + clean(w.Name) + "\" on " + clean(w.Address) + ". No approval gate: its tools run without asking anybody."
	if len(w.Names) == 0 {
		line += "\nNobody has a token yet: a2actl print-remote-config laptop"
	}
	if w.Insecure {
		line += "\nWarning: the bridge listens beyond this machine without TLS."
	}
	return line
}

func unixDialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

// probeTime bounds a look whether somebody listens.
const probeTime = 2 * time.Second

func (a *app) reachable(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	c, err := unixDialer(socket)(ctx)
	if err != nil {
		return err
	}
	return c.Close()
}

// reasonOf is a dial error in brackets, without an errno; "" when the bridge is
// just not running.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ""
	case errors.Is(err, fs.ErrPermission):
		return " (its host socket belongs to another user)"
	}
	return " (its host socket does not take connections)"
}

// log is for the parts that a2actl runs itself: warnings, for a person.
func (a *app) log() *slog.Logger {
	w := a.errOut
	if a.quiet {
		w = io.Discard
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
