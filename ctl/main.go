package ctl

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Main runs a2actl and returns its exit code. An interrupt ends whatever runs
// and gives 130.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // a reader that has gone is an error of the write, so that we clean up
	defer signal.Stop(broken)
	a := &app{in: in, out: out, errOut: errOut, environ: os.Environ(), now: time.Now}
	a.columns = a.width()
	root := newRootCmd(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return exitInterrupted
	}
	report(errOut, err)
	return code(err)
}

// Root returns the command tree, for the tests and the generators of man pages
// and completions.
func Root() *cobra.Command {
	return newRootCmd(&app{in: strings.NewReader(""), out: io.Discard, errOut: io.Discard, now: time.Now})
}

// helpPage is where cobra writes help. It would complain of a reader that has
// gone.
type helpPage struct{ w io.Writer }

func (h helpPage) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}

// The groups of the help, in the order of a first day.
const (
	groupStart   = "start"
	groupConnect = "connect"
	groupWatch   = "watch"
	groupManage  = "manage"
)

func newRootCmd(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "a2actl",
		Short: "Lend your running omp session to other agents",
		Long: `a2actl looks after a2a-bridge: one address and one token through which other
agents use the tools of the omp session that is running now.`,
		Example: `  a2actl demo                                see it work without omp
  a2actl status                              is it reachable, who is attached, who calls
  a2actl print-remote-config laptop          the config for another machine`,
		Version:       bridge.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          onlyVerbs,
	}
	root.SetIn(a.in)
	root.SetOut(helpPage{a.out})
	root.SetErr(a.errOut)
	root.SetFlagErrorFunc(flagFailure)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetHelpCommand(newHelpCmd())
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(helpTemplate)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print one JSON document instead of text")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no words on stderr unless something fails")
	flags.StringVar(&a.config, "config", "", "the `PATH` of another config file")
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "START"},
		&cobra.Group{ID: groupConnect, Title: "CONNECT"},
		&cobra.Group{ID: groupWatch, Title: "WATCH"},
		&cobra.Group{ID: groupManage, Title: "MANAGE"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupStart, newSetupCmd(a), newStatusCmd(a), newDemoCmd(a))
	add(groupConnect, newRemoteConfigCmd(a), newTokenCmd(a))
	add(groupWatch, newCallsCmd(a), newHostCmd(a), newPauseCmd(a), newResumeCmd(a), newWaitCmd(a))
	add(groupManage, newOMPCmd(a), newServiceCmd(a), newAttachCmd(a), newPathsCmd(a), newMetricsCmd(a), newVersionCmd(a))
	root.SetCompletionCommandGroupID(groupManage)
	root.SetHelpCommandGroupID(groupManage)
	root.InitDefaultCompletionCmd()
	return root
}

// newHelpCmd is cobra's, but what does not exist is a mistake.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "the help of a command",
		GroupID: groupManage,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return usage(cmd.Root().Name()+" --help", "%s", err)
			case len(rest) > 0:
				return onlyVerbs(c, rest)
			}
			return c.Help()
		},
	}
}

// flagFailure is a wrong flag in our words.
func flagFailure(cmd *cobra.Command, err error) error {
	try := cmd.CommandPath() + " --help"
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		flag, value := "--"+invalid.GetFlag().Name, invalid.GetValue()
		if n, err := strconv.ParseUint(value, 10, 32); err == nil {
			return usage(try, "%s %d needs a unit: %ds, %dm or %dh", flag, n, n, n, n)
		}
		return usage(try, "%s takes a time such as 90s, 10m or 2h, not %q", flag, value)
	}
	return usage(try, "%s", err)
}

// suggestWithin is how many letters may be wrong for a suggestion.
const suggestWithin = 2

// onlyVerbs is the body of a command that only groups others.
func onlyVerbs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	try := cmd.CommandPath() + " --help"
	cmd.SuggestionsMinimumDistance = suggestWithin
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		try = cmd.CommandPath() + " " + near[0]
	}
	return usage(try, "%s has no command %q", cmd.CommandPath(), args[0])
}

// listing groups the verbs of a thing and lists the things when none is given.
func listing(use, short, example string, list *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd := noun(use, short, example, append([]*cobra.Command{list}, verbs...)...)
	cmd.Annotations = map[string]string{verbIsOptional: "yes"}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return onlyVerbs(c, args)
		}
		return list.RunE(c, args)
	}
	return cmd
}

// verbIsOptional marks a command that does something by itself, for its usage.
const verbIsOptional = "verb-is-optional"

// noun groups the verbs of one thing.
func noun(use, short, example string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: cobra.ArbitraryArgs, RunE: onlyVerbs}
	cmd.AddCommand(verbs...)
	return cmd
}

// exactly and atMostArgs are cobra's checks with our words.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(cmd.CommandPath()+" --help", "%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

func upTo(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage(cmd.CommandPath()+" --help", "%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// The help shows one real example before anything else.
const helpTemplate = `{{if .HasExample}}{{.Example}}

{{end}}{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

const usageTemplate = `Usage: {{if .HasAvailableSubCommands}}{{.CommandPath}} {{if index .Annotations "verb-is-optional"}}[COMMAND]{{else}}COMMAND{{end}}{{else}}{{.UseLine}}{{end}}
{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}
Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{else}}{{range $group := .Groups}}
{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if and .HasParent .HasAvailableInheritedFlags}}
Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}`
