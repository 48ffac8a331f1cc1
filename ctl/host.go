package ctl

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

func newHostCmd(a *app) *cobra.Command {
	return listing("host", "attached omp sessions, and which one is main: list, use",
		"  a2actl host list\n  a2actl host use docs", newHostListCmd(a), newHostUseCmd(a))
}

func newHostListCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "the attached sessions",
		Example: "  a2actl host list",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := ask(a, cmd.Context(), func(c *control.Client) (control.Status, error) { return c.Status(cmd.Context()) })
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(map[string]any{"main": s.Main, "hosts": s.Hosts})
			}
			return a.print(strings.Join(hostLines(s, a.now(), a.columns), "\n") + "\n")
		},
	}
}

func newHostUseCmd(a *app) *cobra.Command {
	var auto bool
	cmd := &cobra.Command{
		Use:     "use NAME | --auto",
		Short:   "pin the session behind the plain address, or unpin it",
		Example: "  a2actl host use docs",
		Args:    upTo(1, "one name, or --auto"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if auto == (len(args) == 1) {
				return usage("a2actl host list", "which one? Give a name, or --auto")
			}
			choice := control.MainChoice{Name: strings.Join(args, ""), Auto: auto}
			_, err := ask(a, cmd.Context(), func(c *control.Client) (struct{}, error) {
				return struct{}{}, c.UseHost(cmd.Context(), choice)
			})
			if err != nil {
				return orTry(err, "a2actl host list")
			}
			if a.json {
				return a.emit(choice)
			}
			if auto {
				a.say("The main session is picked by itself again.")
			} else {
				a.say("%q is main now, and stays it until: a2actl host use --auto", clean(choice.Name))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&auto, "auto", false, "unpin: the first to attach is main")
	return cmd
}

// pollEvery is how often wait asks. The daemon answers from memory.
const pollEvery = 200 * time.Millisecond

func newWaitCmd(a *app) *cobra.Command {
	var host, idle, approval bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "wait --host | --idle | --approval",
		Short:   "wait until a session is attached, nothing runs, or an approval is asked for",
		Example: "  a2actl wait --host --timeout 60s && echo attached",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n := howMany(host, idle, approval); n != 1 {
				return usage("a2actl wait --host --timeout 60s", "wait takes one of --host, --idle and --approval")
			}
			var over <-chan time.Time
			if timeout > 0 {
				over = time.After(timeout)
			}
			tick := time.NewTicker(pollEvery)
			defer tick.Stop()
			for {
				s, err := ask(a, cmd.Context(), func(c *control.Client) (control.Status, error) { return c.Status(cmd.Context()) })
				if err != nil {
					return err
				}
				if host && s.Main.Attached || approval && s.Calls.AwaitingApproval > 0 || idle && s.Calls.Running+s.Calls.Queued == 0 {
					if a.json {
						s.Versions.A2actl = new(bridge.Version())
						return a.emit(s)
					}
					return nil
				}
				select {
				case <-tick.C:
				case <-over:
					return withTry(errors.New(waitedFor(host, approval)+" within "+span(timeout)), "a2actl status")
				case <-cmd.Context().Done():
					return cmd.Context().Err()
				}
			}
		},
	}
	f := cmd.Flags()
	f.BoolVar(&host, "host", false, "until a session is attached")
	f.BoolVar(&idle, "idle", false, "until no call runs or waits")
	f.BoolVar(&approval, "approval", false, "until a call waits for your approval")
	f.DurationVar(&timeout, "timeout", 0, "give up after this `TIME` (default: never)")
	return cmd
}

func howMany(flags ...bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

// waitedFor is what did not come about.
func waitedFor(host, approval bool) string {
	switch {
	case host:
		return "no omp session attached"
	case approval:
		return "no call asked for your approval"
	}
	return "calls did not come to an end"
}
