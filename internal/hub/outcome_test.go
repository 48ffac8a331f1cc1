package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

// facts are what a caller and the ledger have to agree on.
type facts struct {
	State    bridge.State
	Kind     bridge.Kind
	Executed bridge.Executed
	Retry    bridge.Retry
	Text     string // ID stands for the call's
}

const never = bridge.Executed("no")

// answer is a tool that ends in one way.
func answer(result string, e *hostlink.Error) runFunc {
	return func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		if e != nil {
			return nil, e
		}
		return json.RawMessage(result), nil
	}
}

func fault(kind, message string, executed bridge.Executed) *hostlink.Error {
	return &hostlink.Error{Kind: kind, Message: message, Executed: executed}
}

// TestOutcomeOfEachSituation goes through the outcome table: what the caller is
// told, and that the ledger says the same.
func TestOutcomeOfEachSituation(t *testing.T) {
	t.Parallel()
	settings := func(change func(*hub.Settings)) func(*hub.Config) {
		return func(c *hub.Config) { change(&c.Settings) }
	}
	for _, tt := range []struct {
		name string
		cfg  func(*hub.Config)
		play func(r *rig, c bridge.Call) reply
		tool string
		args string
		want facts
	}{
		{"result", nil, withHost(answer(`{"content":[]}`, nil)), "write", "", facts{bridge.Done, "", "yes", "", ""}},
		{"error of the tool", nil, withHost(answer(`{"content":[],"isError":true}`, nil)), "write", "", facts{bridge.Failed, "", "yes", "check", ""}},
		{"isError that is none", nil, withHost(answer(`{"content":[{"isError":true,"a":"\"isError\":true"}],"isError" : false}`, nil)), "write", "", facts{bridge.Done, "", "yes", "", ""}},

		{"nobody ever attached", nil, alone, "read", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: no omp session is attached to this bridge. Calling again is safe.\nSomeone must start omp on that machine.\n(call ID, waited 25 s)"}},
		{"the last one left", nil, func(r *rig, c bridge.Call) reply {
			r.host("app", echo).leave()
			r.await("app gone", func() bool { return !r.hub.Main().Attached })
			<-time.After(3 * time.Minute)
			return alone(r, c)
		}, "read", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: no omp session is attached to this bridge. Calling again is safe.\nThe last one, \"app\", left 3 min ago. Someone must start omp on that machine.\n(call ID, waited 25 s)"}},
		{"main away while another is there", nil, func(r *rig, c bridge.Call) reply {
			app := r.host("app", echo)
			r.host("docs", echo)
			app.leave()
			r.await("app gone", func() bool { return !r.hub.Main().Attached })
			return alone(r, c)
		}, "read", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: the omp session \"app\" is not attached to this bridge. Calling again is safe.\nIt left 25 s ago. Someone must start it again on that machine.\n(call ID, waited 25 s)"}},
		{"attached but not ready", nil, func(r *rig, c bridge.Call) reply {
			s := r.host("app", echo)
			s.SetState(hostlink.StateNotReady, hostlink.Session{})
			r.await("not ready", func() bool { return r.hub.Hosts()[0].State == hub.HostNotReady })
			return alone(r, c)
		}, "read", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: the omp session \"app\" is attached but not ready to run tools. Calling again is safe.\nIt may be starting; if this lasts, someone must look at omp on that machine.\n(call ID, waited 25 s)"}},
		{"rejected without waiting", settings(func(s *hub.Settings) { s.QueueMode = hub.RejectMode }), alone, "read", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: no omp session is attached to this bridge. Calling again is safe.\nSomeone must start omp on that machine.\n(call ID)"}},
		{"every slot taken until the wait ended", settings(func(s *hub.Settings) { s.Concurrency = 1 }), func(r *rig, c bridge.Call) reply {
			h := newHeld()
			r.host("app", h.run)
			r.begin(request("read"), &watch{})
			<-h.begun
			got := alone(r, c)
			close(h.let)
			return got
		}, "read", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: the omp session \"app\" was busy with other calls all the time. Calling again is safe.\n(call ID, waited 25 s)"}},

		{"queue full by count", settings(func(s *hub.Settings) { s.QueueCalls = 1 }), func(r *rig, c bridge.Call) reply {
			first := request("read")
			r.begin(first, &watch{})
			r.awaitState(first.ID, bridge.Queued)
			return alone(r, c)
		}, "read", "", facts{bridge.Refused, bridge.QueueFull, "no", "safe",
			"Not executed: too many calls wait for this omp session already. Calling again in a moment is safe. (call ID)"}},
		{"queue full by bytes", settings(func(s *hub.Settings) { s.QueueBytes = 10 }), alone, "read", `{"a":"0123456789"}`, facts{bridge.Refused, bridge.QueueFull, "no", "safe",
			"Not executed: too many calls wait for this omp session already. Calling again in a moment is safe. (call ID)"}},
		{"paused", nil, func(r *rig, c bridge.Call) reply {
			r.hub.Pause(0)
			return alone(r, c)
		}, "read", "", facts{bridge.Refused, bridge.Paused, "no", "safe",
			"Not executed: the owner paused this bridge. Calling again is safe once they resume it. (call ID)"}},
		{"paused while it waited", nil, func(r *rig, c bridge.Call) reply {
			got := r.begin(c, &watch{})
			r.awaitState(c.ID, bridge.Queued)
			r.hub.Pause(10 * time.Minute)
			return <-got
		}, "read", "", facts{bridge.Refused, bridge.Paused, "no", "safe",
			"Not executed: the owner paused this bridge for another 10 min. Calling again after that is safe. (call ID)"}},
		{"the daemon stops while it waits", nil, func(r *rig, c bridge.Call) reply {
			got := r.begin(c, &watch{})
			r.awaitState(c.ID, bridge.Queued)
			r.hub.Stop(r.ctx)
			return <-got
		}, "read", "", facts{bridge.Refused, bridge.Stopping, "no", "safe",
			"Not executed: the bridge is restarting. Calling again is safe. (call ID)"}},
		{"a wait that is no whole number of seconds", nil, func(r *rig, c bridge.Call) reply {
			c.Peer.Wait = 2700 * time.Millisecond
			return alone(r, c)
		}, "read", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: no omp session is attached to this bridge. Calling again is safe.\nSomeone must start omp on that machine.\n(call ID, waited 3 s)"}},
		{"another session behind the address", nil, func(r *rig, c bridge.Call) reply {
			app := r.host("app", echo)
			r.call(request("read"))
			app.leave()
			r.await("app gone", func() bool { return !r.hub.Main().Attached })
			r.host("docs", echo)
			return alone(r, c)
		}, "read", "", facts{bridge.Refused, bridge.Moved, "no", "safe",
			"Not executed: this bridge now leads to the omp session \"docs\" (it was \"app\"). Its files and directory differ. Call again to use \"docs\". (call ID)"}},

		{"unknown tool", nil, withHost(echo), "nope", "", facts{bridge.Refused, bridge.ToolUnavailable, "no", "ask",
			"Not executed: no tool `nope` is available here to this token. List the tools to see those that are; calling again alone will not help. (call ID)"}},
		{"denied tool reads like an unknown one", settings(func(s *hub.Settings) { s.Deny = []string{"wri*"} }), withHost(echo), "write", "", facts{bridge.Refused, bridge.ToolUnavailable, "no", "ask",
			"Not executed: no tool `write` is available here to this token. List the tools to see those that are; calling again alone will not help. (call ID)"}},
		{"tool outside the token's globs", nil, func(r *rig, c bridge.Call) reply {
			c.Peer.Tools = []string{"grep"}
			return withHost(echo)(r, c)
		}, "read", "", facts{bridge.Refused, bridge.ToolUnavailable, "no", "ask",
			"Not executed: no tool `read` is available here to this token. List the tools to see those that are; calling again alone will not help. (call ID)"}},
		{"tool that the host has lost", nil, withHost(answer("", fault(hostlink.KindUnknownTool, "", never))), "write", "", facts{bridge.Refused, bridge.ToolUnavailable, "no", "ask",
			"Not executed: no tool `write` is available here to this token. List the tools to see those that are; calling again alone will not help. (call ID)"}},
		{"arguments that are no object", nil, alone, "read", `[1]`, facts{bridge.Refused, bridge.BadArguments, "no", "ask",
			"Not executed: the arguments of `read` are not valid: they must be a JSON object. Correct the arguments and call again. (call ID)"}},
		{"arguments that the host refuses", nil, withHost(answer("", fault(hostlink.KindBadArguments, "path is missing", never))), "write", "", facts{bridge.Refused, bridge.BadArguments, "no", "ask",
			"Not executed: the arguments of `write` are not valid: path is missing. Correct the arguments and call again. (call ID)"}},
		{"arguments that the host refuses at length", nil, withHost(answer("", fault(hostlink.KindBadArguments, "path is missing\n{\n  \"a\": 1\n}", never))), "write", "", facts{bridge.Refused, bridge.BadArguments, "no", "ask",
			"Not executed: the arguments of `write` are not valid: path is missing\n{\n  \"a\": 1\n}\nCorrect the arguments and call again. (call ID)"}},
		{"arguments too large", nil, alone, "read", `{"a":"` + strings.Repeat("x", 25<<20) + `"}`, facts{bridge.Refused, bridge.TooLarge, "no", "ask",
			"Not executed: the arguments of `read` are too large (25 MiB). Send less; calling again alone will not help. (call ID)"}},
		{"denied by the owner", nil, withHost(answer("", fault(hostlink.KindDenied, "Tool call denied by user", never))), "write", "", facts{bridge.Refused, bridge.Denied, "no", "ask",
			"Not executed: `write` was denied by the owner or their rules: Tool call denied by user. Ask them before calling again. (call ID)"}},
		{"approval not answered", nil, withHost(func(ctx context.Context, _ hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
			e.Approval(hostlink.ApprovalPending)
			<-ctx.Done()
			return nil, fault(hostlink.KindCancelled, "", never)
		}), "write", "", facts{bridge.Expired, bridge.NotApproved, "no", "ask",
			"Not executed: the owner did not approve `write` within 25 s. Ask them before calling again. (call ID)"}},
		{"host between sessions", nil, withHost(answer("", fault(hostlink.KindNotReady, "", never))), "write", "", facts{bridge.Expired, bridge.NoHost, "no", "safe",
			"Not executed: the omp session \"app\" was not ready to run it. Calling again is safe.\n(call ID)"}},
		{"host without its gate", nil, withHost(answer("", fault(hostlink.KindNoGate, "no settings", never))), "write", "", facts{bridge.Refused, bridge.HostFault, "no", "ask",
			"Not executed: omp could not run `write`. Its owner finds the reason in the log; ask them before calling again. (call ID)"}},

		{"caller gone while queued", nil, func(r *rig, c bridge.Call) reply {
			ctx, leave := context.WithCancel(r.ctx)
			got := r.beginWith(ctx, c, &watch{})
			r.awaitState(c.ID, bridge.Queued)
			leave()
			return <-got
		}, "read", "", facts{bridge.Abandoned, bridge.CallerGone, "no", "",
			"Not executed: its caller left while it waited. Calling again is safe. (call ID)"}},
		{"caller found gone at hand-over", nil, func(r *rig, c bridge.Call) reply {
			r.host("app", echo)
			return <-r.begin(c, &watch{handOver: func() error { return errors.New("gone") }})
		}, "write", "", facts{bridge.Abandoned, bridge.CallerGone, "no", "",
			"Not executed: its caller left while it waited. Calling again is safe. (call ID)"}},
		{"cancelled while queued", nil, func(r *rig, c bridge.Call) reply {
			got := r.begin(c, &watch{})
			r.awaitState(c.ID, bridge.Queued)
			r.hub.Cancel(func(o bridge.Call) bool { return o.ID == c.ID }, bridge.CancelledByPeer)
			return <-got
		}, "read", "", facts{bridge.Cancelled, bridge.CancelledByPeer, "no", "",
			"Not executed: its caller cancelled it before it started. Calling again is safe. (call ID)"}},
		{"cancelled while running", nil, cancelRunning(bridge.CancelledByPeer), "write", "", facts{bridge.Cancelled, bridge.CancelledByPeer, "unknown", "check",
			"May have run: its caller cancelled `write` while it was running. Look at its effect before calling again. (call ID)"}},
		{"cancelled by the owner while running", nil, cancelRunning(bridge.CancelledHere), "write", "", facts{bridge.Cancelled, bridge.CancelledHere, "unknown", "check",
			"May have run: the owner of this bridge cancelled `write` while it was running. Look at its effect and ask them before calling again. (call ID)"}},
		{"cancelled while its approval was pending", nil, func(r *rig, c bridge.Call) reply {
			r.host("app", func(ctx context.Context, _ hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
				e.Approval(hostlink.ApprovalPending)
				<-ctx.Done()
				return text("late"), nil
			})
			got := r.begin(c, &watch{})
			r.await("approval", func() bool { return r.hub.Counts().AwaitingApproval == 1 })
			r.hub.Cancel(func(bridge.Call) bool { return true }, bridge.CancelledHere)
			return <-got
		}, "write", "", facts{bridge.Cancelled, bridge.CancelledHere, "no", "ask",
			"Not executed: the owner of this bridge cancelled it. Ask them before calling again. (call ID)"}},

		{"host lost while running", nil, func(r *rig, c bridge.Call) reply {
			s := r.host("app", newHeld().run)
			got := r.begin(c, &watch{})
			r.awaitState(c.ID, bridge.Running)
			s.leave()
			return <-got
		}, "write", "", facts{bridge.Unknown, bridge.HostLost, "unknown", "check",
			"May have run: contact with omp was lost while `write` was running. Look at its effect before calling again. (call ID)"}},
		{"result too large", settings(func(s *hub.Settings) { s.ResultBytes = 100 }), withHost(answer(`{"content":"`+strings.Repeat("x", 200)+`"}`, nil)), "write", "", facts{bridge.Failed, bridge.ResultTooLarge, "yes", "check",
			"Executed, but the result of `write` is too large to pass on: it has 214 bytes, the limit is 100 bytes. Look at its effect before calling again, and ask for less. (call ID)"}},
		{"host does not know how it ended", nil, withHost(answer("", fault(hostlink.KindFault, "boom at /home/u/secret", "unknown"))), "write", "", facts{bridge.Unknown, bridge.HostFault, "unknown", "check",
			"May have run: omp could not say how `write` ended. Look at its effect before calling again. (call ID)"}},
		{"host broke after it ran", nil, withHost(answer("", fault(hostlink.KindFault, "boom", "yes"))), "write", "", facts{bridge.Failed, bridge.HostFault, "yes", "check",
			"Executed, but what omp answered for `write` cannot be passed on. Look at its effect before calling again. (call ID)"}},
		{"ledger that cannot be written", func(c *hub.Config) { c.Ledger = brokenLedger{} }, withHost(echo), "write", "", facts{bridge.Refused, bridge.LedgerFault, "no", "ask",
			"Not executed: the bridge cannot write its audit file, and without that only tools that change nothing run. Ask the owner before calling again. (call ID)"}},
		{"a read goes on without the ledger", func(c *hub.Config) { c.Ledger = brokenLedger{} }, withHost(echo), "read", "", facts{bridge.Done, "", "yes", "", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var change []func(*hub.Config)
				if tt.cfg != nil {
					change = append(change, tt.cfg)
				}
				r := newRig(t, change...)
				c := request(tt.tool)
				if tt.args != "" {
					c.Args = json.RawMessage(tt.args)
				}
				got := tt.play(r, c)
				if got.err != nil {
					t.Fatal(got.err)
				}
				want := tt.want
				want.Text = strings.ReplaceAll(want.Text, "ID", string(c.ID))
				if diff := cmp.Diff(want, facts{got.State, got.Kind, got.Executed, got.Retry, got.Text}); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				if (got.Text == "") != (got.Result != nil) {
					t.Errorf("text %q and result %q: want exactly one", got.Text, got.Result)
				}
				if r.cfg.Ledger != nil {
					return
				}
				end := r.record(c.ID).End
				if end == nil || end.State != got.State || end.Kind != got.Kind || end.Executed != got.Executed {
					t.Errorf("the ledger says %+v, the caller heard %+v", end, got.Outcome)
				}
			})
		})
	}
}

// alone makes the call as things are.
func alone(r *rig, c bridge.Call) reply { return <-r.begin(c, &watch{}) }

func withHost(run runFunc) func(*rig, bridge.Call) reply {
	return func(r *rig, c bridge.Call) reply {
		r.host("app", run)
		return alone(r, c)
	}
}

func cancelRunning(why bridge.Kind) func(*rig, bridge.Call) reply {
	return func(r *rig, c bridge.Call) reply {
		r.host("app", newHeld().run)
		got := r.begin(c, &watch{})
		r.awaitState(c.ID, bridge.Running)
		if n := r.hub.Cancel(func(o bridge.Call) bool { return o.ID == c.ID }, why); n != 1 {
			r.t.Errorf("Cancel hit %d calls, want 1", n)
		}
		return <-got
	}
}

type brokenLedger struct{}

func (brokenLedger) Start(bridge.CallStart, bool) error {
	return fmt.Errorf("%w: disk full", bridge.LedgerFault)
}
func (brokenLedger) End(bridge.CallEnd) error {
	return fmt.Errorf("%w: disk full", bridge.LedgerFault)
}
func (brokenLedger) Open() []bridge.CallStart         { return nil }
func (brokenLedger) Ran(time.Time) []bridge.CallStart { return nil }
