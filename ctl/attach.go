package ctl

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
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
interrupted; the program is started again when it ends. Its tools run without an
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
				a.say("No bridge answers yet (%s); it is attached as soon as one does: %s", reasonOf(err), a.startHint())
			}
			p := stdiohost.New(stdiohost.Config{
				Name: name, Command: args, Version: bridge.Version(), Dial: unixDialer(paths.HostSocket),
				Stderr: a.errOut, Log: a.log(),
				OnWelcome: func(w stdiohost.Welcome) { a.say("%s", attachedText(w)) },
			})
			return p.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the name in its address (default: the directory's)")
	cmd.Flags().SetInterspersed(false)
	return cmd
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

// reasonOf is a dial error without an errno.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no host socket"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens on the host socket"
	case errors.Is(err, fs.ErrPermission):
		return "the host socket belongs to another user"
	}
	return "no answer on the host socket"
}

// log is for the parts that a2actl runs itself: warnings, for a person.
func (a *app) log() *slog.Logger {
	w := a.errOut
	if a.quiet {
		w = io.Discard
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
