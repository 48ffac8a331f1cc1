package ctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

func newCallsCmd(a *app) *cobra.Command {
	var limit int
	show := newCallsShowCmd(a)
	cmd := listing("calls", "what peers did and do: list, show, cancel",
		"  a2actl calls\n  a2actl calls show c_7f3kq2m4xw", newCallsListCmd(a), show, newCallsCancelCmd(a))
	limitFlag(cmd, &limit)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 1 && strings.HasPrefix(args[0], "c_"):
			return show.RunE(c, args)
		case len(args) > 0:
			return onlyVerbs(c, args)
		}
		return a.listCalls(c.Context(), limit)
	}
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
			return a.listCalls(cmd.Context(), limit)
		},
	}
	limitFlag(cmd, &limit)
	return cmd
}

func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", 20, "at most `N` calls")
}

func (a *app) listCalls(ctx context.Context, limit int) error {
	if limit < 1 {
		return usage("a2actl calls --limit 20", "--limit must be at least 1, not %d", limit)
	}
	list, err := ask(a, ctx, func(c *control.Client) (control.CallList, error) { return c.Calls(ctx, limit) })
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
	var rows [][]string
	for _, c := range list.Calls {
		rows = append(rows, []string{string(c.ID), a.when(c), clean(c.Peer), clean(c.Tool), clean(c.Host), c.State, took(c)})
	}
	header := []string{"ID", "WHEN", "PEER", "TOOL", "HOST", "STATE", "TOOK"}
	return a.print(strings.Join(table(a.columns, header, rows), "\n") + "\n")
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
	if w := waited(c); w != "" {
		line += ", " + w
	}
	return line
}

// waited is how long a call sat in the queue, rounded as on the owner's card;
// "" when that was nothing to speak of.
func waited(c control.CallRecord) string {
	if d := time.Duration(c.WaitedMS) * time.Millisecond; d >= time.Second {
		return "waited " + span(d.Round(time.Second))
	}
	return ""
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
		end += ": " + whyKind(c.Kind)
	}
	if c.RanLate {
		end += "; it ran late, after its caller had been told otherwise"
	}
	parts := []string{string(c.ID), who, clean(c.Tool)}
	if c.Host != "" { // no session was picked yet
		parts = append(parts, clean(c.Host))
	}
	line := strings.Join(append(parts, end), "  ") + "\n"
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
	var facts []string
	if w := waited(c); w != "" {
		facts = append(facts, w)
	}
	ran := map[bridge.Executed]string{bridge.ExecutedNo: "it did not run", bridge.ExecutedYes: "ran once", bridge.ExecutedUnknown: "it may have run"}[c.Executed]
	if ran != "" {
		facts = append(facts, ran)
	}
	if c.ArgsBytes > 0 { // they are measured when a call is handed over
		facts = append(facts, fmt.Sprintf("arguments %d bytes", c.ArgsBytes))
	}
	if c.Executed == bridge.ExecutedYes {
		facts = append(facts, fmt.Sprintf("result %d bytes", c.Bytes))
	}
	if len(facts) > 0 {
		line += "  " + strings.Join(facts, ", ") + "\n"
	}
	return line
}

// whys say to the owner why a call ended as it did.
var whys = map[bridge.Kind]string{
	bridge.NoHost:          "nobody was there to run it",
	bridge.QueueFull:       "too many calls were waiting",
	bridge.Paused:          "the bridge was paused",
	bridge.Stopping:        "the bridge was going down",
	bridge.Moved:           "another session was behind the address than its caller knew",
	bridge.ToolUnavailable: "no such tool, or its token may not use it",
	bridge.BadArguments:    "the arguments were not valid",
	bridge.TooLarge:        "the arguments were too large",
	bridge.Denied:          "denied by omp's rules or by you",
	bridge.NotApproved:     "nobody answered the approval in time",
	bridge.CallerGone:      "its caller went away",
	bridge.CancelledByPeer: "its caller cancelled it",
	bridge.CancelledHere:   "you cancelled it",
	bridge.NotArrived:      "it never reached the session",
	bridge.HostLost:        "the session was lost while it ran",
	bridge.ResultTooLarge:  "the result was too large to pass on",
	bridge.HostFault:       "the session could not run it, or say how it ended",
	bridge.NotFound:        "there was no session of that name",
	bridge.Conflict:        "its id was taken",
	bridge.LedgerFault:     "the audit file could not be written",
}

func whyKind(k bridge.Kind) string {
	if w, ok := whys[k]; ok {
		return w
	}
	return clean(string(k))
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
