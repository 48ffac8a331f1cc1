package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCmd(out, errOut)
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
func Root() *cobra.Command { return newRootCmd(io.Discard, io.Discard) }

type usageError struct{ error }

func newRootCmd(out, errOut io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "a2a-bridge",
		Short:         "One address through which other agents reach the omp session that runs here",
		Example:       "  a2a-bridge serve",
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
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServeCmd(errOut), newVersionCmd())
	return root
}

func newServeCmd(errOut io.Writer) *cobra.Command {
	var file string
	flags := map[string]*string{}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "run the daemon in the foreground",
		Example: "  a2a-bridge serve\n  a2a-bridge serve --http-port 7718",
		Long: `Runs the daemon until it is told to stop. It takes its sockets from systemd if
that passes them, and binds the same addresses itself otherwise. Every setting
of the configuration file is also a flag and an environment variable.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("serve takes no arguments, not %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := Config{Env: os.Environ(), Flags: map[string]string{}, Stderr: errOut}
			for key, value := range flags {
				if cmd.Flags().Changed(flagName(key)) {
					c.Flags[key] = *value
				}
			}
			if file != "" {
				abs, err := filepath.Abs(file)
				if err != nil {
					return fmt.Errorf("find %s: %w", file, err)
				}
				c.Env = append(c.Env, "A2A_BRIDGE_CONFIG="+abs)
			}
			return Run(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "another config file `PATH`")
	for _, k := range config.Keys() {
		flags[k.Name] = cmd.Flags().String(flagName(k.Name), "", fmt.Sprintf("`%s`; %s (default %s)", k.Type, k.Doc, k.Default))
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
