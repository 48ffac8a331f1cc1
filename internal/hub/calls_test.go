package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

func TestQueuedCallsRunInOrderOnceAHostComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var want []string
		var got []<-chan reply
		for range 20 {
			c := request("write")
			want = append(want, string(c.ID))
			got = append(got, r.begin(c, &watch{}))
			r.awaitState(c.ID, bridge.Queued)
		}
		<-time.After(6 * time.Second)
		s := r.host("app", echo)
		for i, g := range got {
			o := <-g
			if o.State != bridge.Done || o.Waited < 6*time.Second {
				t.Errorf("call %d: %s after %v, want done after 6 s", i, o.State, o.Waited)
			}
		}
		// Frames leave in order; tools then start on goroutines of their own.
		if diff := cmp.Diff(sortedCopy(want), sortedCopy(s.order())); diff != "" {
			t.Errorf("calls that ran (-want +got):\n%s", diff)
		}
	})
}

func sortedCopy(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func TestFramesOfOneCallerLeaveInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var want []bridge.CallID
		for i := range 10 {
			c := request("write")
			want = append(want, c.ID)
			slow := time.Duration(10-i) * time.Millisecond // the first is the slowest
			r.begin(c, &watch{handOver: func() error { <-time.After(slow); return nil }})
			r.awaitState(c.ID, bridge.Queued)
		}
		h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
		must(t, err)
		var ids []int64
		for range want {
			in := <-h.calls
			ids = append(ids, in.ID)
			var p hostlink.CallParams
			must(t, json.Unmarshal(in.Params, &p))
			if p.CallID != want[in.ID-ids0(ids)] {
				t.Errorf("frame %d carries %s, want %s", in.ID, p.CallID, want[in.ID-ids0(ids)])
			}
			h.answers <- func() (json.RawMessage, *hostlink.Error) { return text("ok"), nil }
		}
	})
}

// ids0 is the lowest id: requests are counted as they leave.
func ids0(ids []int64) int64 { return slices.Min(ids) }

func TestASlowCallerDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.host("app", echo)
		stuck := make(chan struct{})
		slow := r.begin(request("write"), &watch{handOver: func() error { <-stuck; return nil }})
		other := request("write", func(c *bridge.Call) { c.Ref.Session = "s2" })
		began := time.Now()
		if o := r.call(other); o.State != bridge.Done || time.Since(began) > 100*time.Millisecond {
			t.Errorf("another caller's call: %s after %v", o.State, time.Since(began))
		}
		close(stuck)
		if o := <-slow; o.State != bridge.Done {
			t.Errorf("the slow caller's call: %s", o.State)
		}
	})
}

func TestConcurrencyAndQueueAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := newHeld()
	s := r.host("app", hold.run)
	const calls = 500
	var got []<-chan reply
	for i := range calls {
		got = append(got, r.begin(request("read", func(c *bridge.Call) { c.Ref.Session = fmt.Sprint(i) }), &watch{}))
	}
	full := calls - 32 - 64
	r.await("the overflow to be refused", func() bool { return r.ledger.Today()[bridge.Refused] == full })
	if n := r.hub.Counts(); n.Running != 32 || n.Queued != 64 {
		t.Errorf("%+v, want 32 running and 64 queued", n)
	}
	if n := len(hold.begun); n > 32 {
		t.Errorf("%d tools run at once, want at most 32", n)
	}
	close(hold.let)
	count := map[bridge.State]int{}
	for _, g := range got {
		o := <-g
		count[o.State]++
		if n := s.runs(o.Call); n > 1 || (o.State == bridge.Done) != (n == 1) {
			t.Errorf("call %s: %s, ran %d times", o.Call, o.State, n)
		}
	}
	if diff := cmp.Diff(map[bridge.State]int{bridge.Done: 96, bridge.Refused: full}, count); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestWhatWaitsIsBoundedWhileNobodyIsAttached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 500 {
		r.begin(request("read"), &watch{})
	}
	r.await("the overflow to be refused", func() bool { return r.ledger.Today()[bridge.Refused] == 500-64 })
	if n := r.hub.Counts(); n.Queued != 64 {
		t.Errorf("%d queued, want 64", n.Queued)
	}
}

func TestListAndCallAgreeFromTheFirstMillisecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 100 {
		s := r.newHost(hostlink.Hello{Kind: "omp", CWD: "/home/u/app"}, echo, "read", "write", fmt.Sprintf("extra%d", i))
		want := fmt.Sprintf("extra%d", i)
		var tools []bridge.Tool
		r.await("the list of this round", func() bool {
			v, err := r.hub.View("")
			must(t, err)
			tools = v.Catalogue.Tools
			return len(tools) == 3 && tools[2].Name == want
		})
		for _, tl := range tools {
			if o := r.call(request(tl.Name)); o.State != bridge.Done {
				t.Fatalf("round %d: %s is listed and ends %s: %s", i, tl.Name, o.State, o.Text)
			}
		}
		s.leave()
		r.await("the host gone", func() bool { return !r.hub.Main().Attached })
	}
}

func TestCancelAgainstCompletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	delay := make(chan time.Duration, 1)
	s := r.host("app", func(ctx context.Context, c hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		select {
		case <-time.After(<-delay):
			return text("done"), nil
		case <-ctx.Done():
			return nil, fault(hostlink.KindCancelled, "", bridge.ExecutedUnknown)
		}
	})
	for i := range 500 {
		c := request("write")
		wait := []time.Duration{0, 100 * time.Microsecond, time.Millisecond}[i%3]
		delay <- wait
		got := r.begin(c, &watch{})
		if i%5 > 0 {
			<-time.After(wait / 2)
		}
		mine := func(o bridge.Call) bool { return o.ID == c.ID }
		r.hub.Cancel(mine, bridge.CancelledByPeer)
		r.hub.Cancel(mine, bridge.CancelledByPeer)
		o := <-got
		rec := r.record(c.ID)
		if rec.End == nil || rec.End.State != o.State || rec.End.Executed != o.Executed {
			t.Fatalf("round %d: the ledger says %+v, the caller heard %s %s", i, rec.End, o.State, o.Executed)
		}
		n := s.runs(c.ID)
		switch {
		case n > 1, o.State != bridge.Done && o.State != bridge.Cancelled,
			o.State == bridge.Done && n != 1,
			o.Executed == bridge.ExecutedNo && n != 0:
			t.Fatalf("round %d: %s, executed %s, ran %d times", i, o.State, o.Executed, n)
		}
		select {
		case <-delay: // it never started
		default:
		}
	}
	if n := r.hub.Cancel(func(o bridge.Call) bool { return o.ID == "c_unknown" }, bridge.CancelledByPeer); n != 0 {
		t.Errorf("cancelling an unknown call hit %d", n)
	}
}

func TestACancelThatTheHostNeverAnswersIsFinalSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
		must(t, err)
		c := request("write")
		got := r.begin(c, &watch{})
		in := <-h.calls
		must(t, in.Event(hostlink.MethodAccepted, nil))
		r.awaitState(c.ID, bridge.Running)
		began := time.Now()
		r.hub.Cancel(func(bridge.Call) bool { return true }, bridge.CancelledByPeer)
		o := <-got
		if o.State != bridge.Cancelled || o.Executed != bridge.ExecutedUnknown || time.Since(began) > time.Second {
			t.Errorf("%s, executed %s, after %v", o.State, o.Executed, time.Since(began))
		}
		// What the host says later changes nothing, but is written down.
		h.answers <- func() (json.RawMessage, *hostlink.Error) { return text("after all"), nil }
		r.await("the late result in the ledger", func() bool { return r.record(c.ID).Late != nil })
		rec := r.record(c.ID)
		if rec.End.State != bridge.Cancelled || rec.Late.State != bridge.Done || rec.Late.Executed != bridge.ExecutedYes {
			t.Errorf("ledger: end %+v, late %+v", rec.End, rec.Late)
		}
		if n := r.ledger.Today(); n[bridge.Cancelled] != 1 || n[bridge.Done] != 0 {
			t.Errorf("counts %v, want one cancelled", n)
		}
	})
}

func TestAHostsWordThatNothingRanWinsOverACancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
		must(t, err)
		got := r.begin(request("write"), &watch{})
		in := <-h.calls
		must(t, in.Event(hostlink.MethodAccepted, nil))
		r.hub.Cancel(func(bridge.Call) bool { return true }, bridge.CancelledByPeer)
		<-time.After(100 * time.Millisecond)
		h.answers <- func() (json.RawMessage, *hostlink.Error) {
			return nil, fault(hostlink.KindCancelled, "", bridge.ExecutedNo)
		}
		if o := <-got; o.State != bridge.Cancelled || o.Executed != bridge.ExecutedNo {
			t.Errorf("%s, executed %s; want cancelled, no", o.State, o.Executed)
		}
	})
}

func TestADuplicateIDIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := newHeld()
	r.host("app", hold.run)
	c := request("write")
	got := r.begin(c, &watch{})
	<-hold.begun
	if o := r.call(c); o.State != bridge.Refused || o.Kind != bridge.Conflict {
		t.Errorf("a second call of the same id: %s %s", o.State, o.Kind)
	}
	close(hold.let)
	if o := <-got; o.State != bridge.Done {
		t.Errorf("the first one: %s", o.State)
	}
}

func TestEventsComeInOrderAndNotAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.host("app", func(_ context.Context, _ hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
			e.Approval(hostlink.ApprovalPending)
			e.Approval(hostlink.ApprovalApproved)
			for i := range 5 {
				<-time.After(300 * time.Millisecond)
				e.Progress(fmt.Sprint(i))
			}
			return text("ok"), nil
		})
		w := &watch{}
		if o := <-r.begin(request("write"), w); o.State != bridge.Done {
			t.Fatal(o.State)
		}
		heard := w.heard()
		want := []bridge.Event{{Kind: bridge.EventApprovalPending}, {Kind: bridge.EventApprovalResolved}}
		for i := range 5 {
			want = append(want, bridge.Event{Kind: bridge.EventProgress, Text: fmt.Sprint(i)})
		}
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestAWatcherThatBlocksDelaysNeitherTheLinkNorTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.host("app", func(_ context.Context, c hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
			for range 200 {
				e.Progress("x")
				<-time.After(time.Millisecond)
			}
			return text("ok"), nil
		})
		slow := &stuckWatch{release: make(chan struct{})}
		first := request("write")
		r.begin(first, slow)
		r.awaitState(first.ID, bridge.Running)
		if o := r.call(request("read", func(c *bridge.Call) { c.Ref.Session = "s2" })); o.State != bridge.Done {
			t.Errorf("another call: %s", o.State)
		}
		r.await("the end in the ledger", func() bool { return r.record(first.ID).End != nil || slow.stuck() })
		close(slow.release)
	})
}

type stuckWatch struct {
	watch
	release chan struct{}
}

func (w *stuckWatch) Event(e bridge.Event) {
	w.watch.Event(e)
	<-w.release
}

func (w *stuckWatch) stuck() bool { return len(w.heard()) > 0 }

func TestTheApprovalLimitFollowsTheCallersPatience(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wait, limit, queued time.Duration
		want                int64
	}{
		{25 * time.Second, 5 * time.Minute, 0, 25_000},
		{300 * time.Second, 5 * time.Minute, 0, 300_000},
		{0, 5 * time.Minute, 0, 300_000},
		{300 * time.Second, time.Minute, 0, 60_000},
		{25 * time.Second, 5 * time.Minute, 20 * time.Second, 5_000},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *hub.Config) { c.ApprovalTimeout = tt.limit })
				c := request("write", func(c *bridge.Call) { c.Peer.Wait = tt.wait })
				got := r.begin(c, &watch{})
				<-time.After(tt.queued)
				s := r.host("app", echo)
				<-got
				s.mu.Lock()
				defer s.mu.Unlock()
				if got := s.list[0].ApprovalMs; got != tt.want {
					t.Errorf("approvalMs = %d, want %d", got, tt.want)
				}
			})
		})
	}
}

func TestAHostThatSleepsThroughItsApprovalLimitHoldsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
		must(t, err)
		got := r.begin(request("write"), &watch{})
		in := <-h.calls
		must(t, in.Event(hostlink.MethodAccepted, nil))
		must(t, in.Event(hostlink.MethodApproval, hostlink.Approval{State: hostlink.ApprovalPending}))
		o := <-got
		if o.State != bridge.Expired || o.Kind != bridge.NotApproved || o.Executed != bridge.ExecutedUnknown || !strings.HasPrefix(o.Text, "May have run") {
			t.Errorf("%s %s, executed %s: %s", o.State, o.Kind, o.Executed, o.Text)
		}
	})
}

func TestALateApprovalIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		owner := make(chan struct{})
		r.host("app", func(_ context.Context, _ hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
			e.Approval(hostlink.ApprovalPending)
			<-owner
			return text("ran all the same"), nil
		})
		c := request("write")
		o := r.call(c)
		if o.Kind != bridge.NotApproved || o.Executed != bridge.ExecutedNo {
			t.Fatalf("%s %s", o.State, o.Kind)
		}
		r.hub.Delivered(c.ID)
		close(owner)
		r.await("the late run in the ledger", func() bool { return r.record(c.ID).Late != nil })
	})
}

func TestCallsSeeOnlyTheirOwnToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := newHeld()
	r.host("app", hold.run)
	c := request("write")
	first := r.begin(c, &watch{})
	<-hold.begun
	if got := <-r.join(c.ID, "another", &watch{}); !errors.Is(got.err, bridge.NotFound) {
		t.Errorf("another token's Join: %v, want NotFound", got.err)
	}
	second := r.join(c.ID, peer.Token, &watch{})
	if got := <-first; !errors.Is(got.err, hub.ErrDetached) {
		t.Errorf("the replaced watcher: %v, want ErrDetached", got.err)
	}
	close(hold.let)
	if got := <-second; got.State != bridge.Done {
		t.Errorf("the joined one: %+v", got)
	}
	if got := <-r.join(c.ID, peer.Token, &watch{}); got.State != bridge.Done || string(got.Result) != string(text(string(c.ID))) {
		t.Errorf("Join before delivery: %+v, want the result again", got)
	}
	r.hub.Delivered(c.ID)
	if got := <-r.join(c.ID, peer.Token, &watch{}); !errors.Is(got.err, bridge.NotFound) {
		t.Errorf("Join after delivery: %v, want NotFound", got.err)
	}
	r.await("idle but for the host", func() bool { return len(r.hub.Calls()) == 0 })
}

func TestAResultIsKeptForAWhileAndThenAcked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := r.host("app", echo)
		c := request("write")
		r.call(c)
		<-time.After(119 * time.Second)
		if got := <-r.join(c.ID, peer.Token, &watch{}); got.State != bridge.Done {
			t.Errorf("Join within the keep time: %+v", got)
		}
		<-time.After(2 * time.Second)
		if got := <-r.join(c.ID, peer.Token, &watch{}); !errors.Is(got.err, bridge.NotFound) {
			t.Errorf("Join after the keep time: %v, want NotFound", got.err)
		}
		s.leave()
		r.await("idle", r.hub.Idle)
	})
}

func TestACallerWhoLeavesARunningCallFindsItAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := newHeld()
	s := r.host("app", hold.run)
	ctx, leave := context.WithCancel(r.ctx)
	c := request("write")
	got := r.beginWith(ctx, c, &watch{})
	<-hold.begun
	leave()
	if o := <-got; !errors.Is(o.err, hub.ErrDetached) {
		t.Fatalf("leaving a running call: %+v, want ErrDetached", o)
	}
	close(hold.let)
	r.await("the end in the ledger", func() bool { return r.record(c.ID).End != nil })
	if o := <-r.join(c.ID, peer.Token, &watch{}); o.State != bridge.Done || s.runs(c.ID) != 1 {
		t.Errorf("%+v, ran %d times", o, s.runs(c.ID))
	}
}
