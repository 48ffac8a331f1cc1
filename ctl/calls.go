package ctl

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

func newCallsCmd(a *app) *cobra.Command {
	cmd := newCallsListCmd(a)
	cmd.Use, cmd.Short = "calls", "what peers did and do: list, show, cancel"
	cmd.Example = "  a2actl calls\n  a2actl calls show c_7f3kq2m4xw"
	list := cmd.RunE
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return onlyVerbs(c, args)
		}
		return list(c, args)
	}
	cmd.AddCommand(newCallsListCmd(a), newCallsShowCmd(a), newCallsCancelCmd(a))
	return cmd
}

func newCallsListCmd(a *app) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the newest calls, open ones first",
		Example: "  a2actl calls list --limit 5",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := ask(a, cmd.Context(), func(c *control.Client) (control.CallList, error) { return c.Calls(cmd.Context(), limit) })
			if err != nil {
				return err
			}
			if list.Calls == nil {
				list.Calls = []control.CallRecord{}
			}
			if a.json {
				return a.emit(list)
			}
			if len(list.Calls) == 0 {
				a.say("No calls yet.")
				return nil
			}
			rows := [][]string{{"ID", "WHEN", "PEER", "TOOL", "HOST", "STATE", "TOOK"}}
			for _, c := range list.Calls {
				rows = append(rows, []string{string(c.ID), a.when(c), clean(c.Peer), clean(c.Tool), clean(c.Host), c.State, took(c)})
			}
			return a.print(strings.Join(columns(rows), "\n") + "\n")
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many")
	return cmd
}

func (a *app) when(c control.CallRecord) string {
	switch {
	case c.EndedAt != nil:
		return ago(a.now(), *c.EndedAt)
	case c.ReceivedAt != nil:
		return "since " + span(a.now().Sub(*c.ReceivedAt))
	}
	return ""
}

func took(c control.CallRecord) string {
	if c.EndedAt == nil {
		return ""
	}
	line := fmt.Sprintf("%.1f s", (time.Duration(c.RanMS) * time.Millisecond).Seconds())
	if waited := time.Duration(c.WaitedMS) * time.Millisecond; waited >= time.Second {
		line += ", waited " + span(waited)
	}
	return line
}

func newCallsShowCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "the story of one call",
		Example: "  a2actl calls show c_7f3kq2m4xw",
		Args:    exactly(1, "one call id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := ask(a, cmd.Context(), func(c *control.Client) (control.CallRecord, error) {
				return c.Call(cmd.Context(), bridge.CallID(args[0]))
			})
			if err != nil {
				return orTry(err, "a2actl calls")
			}
			if a.json {
				return a.emit(c)
			}
			return a.print(callText(c))
		},
	}
}

// callText is a call in a few lines: who, what, where, how it ended, and when.
func callText(c control.CallRecord) string {
	who := clean(c.Peer)
	if c.Client != "" {
		who += " (" + clean(c.Client) + ")"
	}
	end := c.State
	if c.Kind != "" {
		end += ": " + string(c.Kind)
	}
	if c.RanLate {
		end += "; it ran late, after its caller had been told otherwise"
	}
	line := strings.Join([]string{string(c.ID), who, clean(c.Tool), clean(c.Host), end}, "  ") + "\n"
	var story []string
	for _, m := range []struct {
		at   *time.Time
		what string
	}{{c.ReceivedAt, "received"}, {c.HandedAt, "handed over"}, {c.EndedAt, "ended"}} {
		if m.at != nil {
			story = append(story, m.at.Local().Format("15:04:05")+" "+m.what)
		}
	}
	if len(story) > 0 {
		line += "  " + strings.Join(story, "   ") + "\n"
	}
	ran := map[bridge.Executed]string{bridge.ExecutedNo: "it did not run", bridge.ExecutedYes: "it ran", bridge.ExecutedUnknown: "it may have run"}[c.Executed]
	if ran != "" {
		line += fmt.Sprintf("  %s; arguments %d bytes, result %d bytes\n", ran, c.ArgsBytes, c.Bytes)
	}
	return line
}

func newCallsCancelCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cancel ID",
		Short:   "end an open call, or refuse one that waits for your approval",
		Example: "  a2actl calls cancel c_2m4wqe7hn0",
		Args:    exactly(1, "one call id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := ask(a, cmd.Context(), func(c *control.Client) (struct{}, error) {
				return struct{}{}, c.CancelCall(cmd.Context(), bridge.CallID(args[0]))
			})
			if err != nil {
				return orTry(err, "a2actl calls")
			}
			if a.json {
				return a.emit(map[string]any{"id": args[0], "cancelled": true})
			}
			a.say("Cancelled %s.", clean(args[0]))
			return nil
		},
	}
}
