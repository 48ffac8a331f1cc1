package ctl

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

func newPauseCmd(a *app) *cobra.Command {
	var d time.Duration
	cmd := &cobra.Command{
		Use:     "pause",
		Short:   "stop taking calls, with an honest answer to callers; running ones finish",
		Example: "  a2actl pause --for 10m",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("for") && d <= 0 {
				return usage("a2actl pause --for 10m", "--for must be more than 0")
			}
			p, err := ask(a, cmd.Context(), func(c *control.Client) (control.PauseState, error) { return c.Pause(cmd.Context(), d) })
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(p)
			}
			if p.Until == nil {
				a.say("Paused until a2actl resume. Callers are told; running calls finish.")
			} else {
				a.say("Paused until %s. Callers are told; running calls finish. Earlier: a2actl resume", p.Until.Local().Format("15:04:05"))
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&d, "for", 0, "resume by itself after this `TIME`")
	return cmd
}

func newResumeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "resume",
		Short:   "take calls again",
		Example: "  a2actl resume",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := ask(a, cmd.Context(), func(c *control.Client) (control.PauseState, error) { return c.Resume(cmd.Context()) })
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(p)
			}
			a.say("Calls are taken again.")
			return nil
		},
	}
}
