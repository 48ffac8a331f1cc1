package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
)

// The daemon's exit codes beyond 0 and 1.
const (
	exitUsage = 2
	exitHeld  = 73 // EX_CANTCREAT: another daemon owns the state directory
)

// Main runs a2a-bridge and returns its exit code.
func Main(args []string, out, errOut io.Writer) int {
	here := look(errOut)
	ctx, stop := here.untilToldToStop(context.Background())
	defer stop()
	root := newRootCmd(out, errOut, here)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var held *localsock.HeldError
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &held):
		fmt.Fprintln(errOut, err)
		return exitHeld
	case errors.As(err, &wrong):
		fmt.Fprintf(errOut, "%s\ntry: a2a-bridge --help\n", err)
		return exitUsage
	}
	fmt.Fprintln(errOut, err)
	return 1
}

// Root returns the command tree, for the tests and the generators of man pages
// and completions.
func Root() *cobra.Command { return newRootCmd(io.Discard, io.Discard, surroundings{}) }

type usageError struct{ error }

func newRootCmd(out, errOut io.Writer, here surroundings) *cobra.Command {
	root := &cobra.Command{
		Use:           "a2a-bridge",
		Short:         "One address through which other agents reach the omp session that runs here",
		Example:       "  a2a-bridge serve",
		Version:       bridge.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("a2a-bridge has no command %q", args[0])}
			}
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("a2a-bridge {{.Version}}\n")
	root.SetHelpCommand(newHelpCmd())
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServeCmd(errOut, here), newVersionCmd())
	return root
}

// newHelpCmd is cobra's own, but for a command that does not exist.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("a2a-bridge has no command %q", strings.Join(args, " "))}
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// value is a flag's text, with what help calls it.
type value struct{ text, kind string }

func (v *value) String() string        { return v.text }
func (v *value) Set(text string) error { v.text = text; return nil }
func (v *value) Type() string          { return v.kind }

func newServeCmd(errOut io.Writer, here surroundings) *cobra.Command {
	file := value{kind: "PATH"}
	flags := map[string]*value{}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "run the daemon in the foreground",
		Example: "  a2a-bridge serve\n  a2a-bridge serve --http-port 7718",
		Long: `Runs the daemon until it is told to stop. It takes its sockets from systemd if
that passes them, and binds the same addresses itself otherwise. Every setting
of the configuration file is also a flag and an environment variable: queue.wait
is --queue-wait and A2A_BRIDGE_QUEUE_WAIT.

Started in a terminal it ends with it. Elsewhere SIGHUP makes it read the
configuration and the tokens again.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("serve takes no arguments, not %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := Config{Env: os.Environ(), Flags: map[string]string{}, Stderr: errOut,
				Terminal: here.terminal, HangupStops: here.attended, Hurry: here.hurry}
			for key, v := range flags {
				if cmd.Flags().Changed(flagName(key)) {
					c.Flags[key] = v.text
				}
			}
			if file.text != "" {
				abs, err := filepath.Abs(file.text)
				if err != nil {
					return fmt.Errorf("find %s: %w", file.text, err)
				}
				c.Env = append(c.Env, "A2A_BRIDGE_CONFIG="+abs)
			}
			return Run(cmd.Context(), c)
		},
	}
	cmd.Flags().Var(&file, "config", "another configuration file")
	for _, k := range config.Keys() {
		v := &value{kind: string(k.Type)}
		if k.Type == config.TypeChoice {
			v.kind = strings.Join(k.Choices, "|")
		}
		flags[k.Name] = v
		cmd.Flags().Var(v, flagName(k.Name), fmt.Sprintf("%s (default %s)", k.Doc, k.Default))
	}
	return cmd
}

// flagName is a setting's name as a flag: http.port is --http-port.
func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "a2a-bridge "+bridge.Version())
			return err
		},
	}
}
