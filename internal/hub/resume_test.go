package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

func TestARunningCallSurvivesALostLink(t *testing.T) {
	t.Parallel()
	for _, answerWhileAway := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			hold := newHeld()
			s := r.host("app", hold.run)
			c := request("write")
			got := r.begin(c, &watch{})
			<-hold.begun
			r.awaitState(c.ID, bridge.Running)
			s.Drop()
			if answerWhileAway {
				close(hold.let)
			} else {
				<-time.After(2 * time.Second)
				close(hold.let)
			}
			if o := <-got; o.State != bridge.Done || s.runs(c.ID) != 1 {
				t.Errorf("answered while away %v: %s, ran %d times", answerWhileAway, o.State, s.runs(c.ID))
			}
		})
	}
}

func TestACallThatNeverArrivedGoesBackToTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hello := hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"}
		h, err := r.rawHost(hello)
		must(t, err)
		c := request("write")
		w := &watch{}
		got := r.begin(c, w)
		<-h.calls // it has arrived, but the host never said so
		h.cut()
		r.await("the link's end noticed", func() bool { return !r.hub.Main().Attached })
		h, err = r.rawHost(hello)
		must(t, err)
		in := <-h.calls
		var p hostlink.CallParams
		must(t, json.Unmarshal(in.Params, &p))
		if p.CallID != c.ID {
			t.Errorf("handed over again: %s, want %s", p.CallID, c.ID)
		}
		h.answers <- func() (json.RawMessage, *hostlink.Error) { return text("ok"), nil }
		if o := <-got; o.State != bridge.Done {
			t.Errorf("%s", o.State)
		}
		if w.handed != 2 {
			t.Errorf("the watcher was asked %d times, want once for each attempt", w.handed)
		}
	})
}

func TestWhatAHostMayHaveRunIsNeverHandedOverAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		again func(hello hostlink.Hello) hostlink.Hello
		after time.Duration
	}{
		{"the same process has lost it", func(h hostlink.Hello) hostlink.Hello { return h }, time.Second},
		{"another process took the name", func(h hostlink.Hello) hostlink.Hello { h.Instance = "other"; return h }, time.Second},
		{"nobody came back", nil, 11 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				hello := hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"}
				h, err := r.rawHost(hello)
				must(t, err)
				c := request("write")
				got := r.begin(c, &watch{})
				in := <-h.calls
				must(t, in.Event(hostlink.MethodAccepted, nil))
				r.awaitState(c.ID, bridge.Running)
				began := time.Now()
				h.cut()
				r.await("the link's end noticed", func() bool { return !r.hub.Main().Attached })
				if tt.again != nil {
					h, err = r.rawHost(tt.again(hello))
					must(t, err)
				}
				o := <-got
				if o.State != bridge.Unknown || o.Executed != bridge.ExecutedUnknown || time.Since(began) > tt.after {
					t.Errorf("%s, executed %s, after %v; want unknown within %v", o.State, o.Executed, time.Since(began), tt.after)
				}
				if len(h.calls) > 0 {
					t.Error("it was handed over again")
				}
			})
		})
	}
}

func TestADeadProcessIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	child := exec.Command("sleep", "60")
	must(t, child.Start())
	h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app", PID: child.Process.Pid})
	must(t, err)
	c := request("write")
	got := r.begin(c, &watch{})
	in := <-h.calls
	must(t, in.Event(hostlink.MethodAccepted, nil))
	r.awaitState(c.ID, bridge.Running)
	began := time.Now()
	must(t, child.Process.Kill()) // not waited for: a zombie counts as dead
	h.cut()
	if o := <-got; o.State != bridge.Unknown || time.Since(began) > 5*time.Second {
		t.Errorf("%s after %v, want unknown at once", o.State, time.Since(began))
	}
	if m := r.hub.Main(); m.LeftReason != "its process ended" {
		t.Errorf("left because %q", m.LeftReason)
	}
	_ = child.Wait()
}

func TestARestartedDaemonTakesARunningCallOver(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			hold := newHeld()
			s := r.host("app", hold.run)
			c := request("write")
			got := r.begin(c, &watch{})
			<-hold.begun
			r.awaitState(c.ID, bridge.Running)
			if crash {
				r.crash()
			} else {
				r.stop()
			}
			if o := <-got; !errors.Is(o.err, hub.ErrDetached) {
				t.Errorf("crash %v: the old process answers %+v, want ErrDetached", crash, o)
			}
			r.start()
			joined := r.join(c.ID, peer.Token, &watch{})
			if o := <-r.join(c.ID, "another", &watch{}); !errors.Is(o.err, bridge.NotFound) {
				t.Errorf("another token's Join: %v", o.err)
			}
			<-time.After(3 * time.Second)
			close(hold.let)
			o := <-joined
			if o.State != bridge.Done || string(o.Result) != string(text(string(c.ID))) || s.runs(c.ID) != 1 {
				t.Errorf("crash %v: %+v, ran %d times", crash, o, s.runs(c.ID))
			}
			rec := r.record(c.ID)
			if rec.Start == nil || rec.End == nil || rec.End.State != bridge.Done {
				t.Errorf("ledger: %+v", rec)
			}
		})
	}
}

func TestAResultFromTheTimeWithoutADaemonIsGiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold := newHeld()
		r.host("app", hold.run)
		c := request("write")
		r.begin(c, &watch{})
		<-hold.begun
		r.awaitState(c.ID, bridge.Running)
		r.crash()
		close(hold.let)
		<-time.After(time.Minute)
		r.start()
		if o := <-r.join(c.ID, peer.Token, &watch{}); o.State != bridge.Done {
			t.Errorf("%+v, want the result", o)
		}
	})
}

func TestAnEndedCallIsWantedBackWhileItsResultIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hello := hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"}
	h, err := r.rawHost(hello)
	must(t, err)
	answer := func(result json.RawMessage, e *hostlink.Error) bridge.CallID {
		c := request("write")
		h.answers <- func() (json.RawMessage, *hostlink.Error) { return result, e }
		r.call(c)
		hello.Unacked = append(hello.Unacked, hostlink.CallRef{CallID: c.ID, Ref: json.RawMessage(`{}`)})
		return c.ID
	}
	kept := answer(text("ok"), nil)
	answer(nil, &hostlink.Error{Kind: hostlink.KindDenied, Message: "no", Executed: bridge.ExecutedNo})
	r.hub.Delivered(answer(text("ok"), nil))
	h.cut()
	r.await("the link's end noticed", func() bool { return !r.hub.Main().Attached })
	h, err = r.rawHost(hello)
	must(t, err)
	if got := h.welcome.Resumed; len(got) != 1 || got[0].CallID != kept {
		t.Errorf("resumed = %v, want %s alone", got, kept)
	}
}

// fullDisk is a ledger whose ends cannot be written while full is set.
type fullDisk struct {
	memoryLedger
	full atomic.Bool
}

func (d *fullDisk) End(bridge.CallEnd) error {
	if d.full.Load() {
		return bridge.LedgerFault
	}
	return nil
}

func TestAHostKeepsAnAnswerWhoseEndIsNotWritten(t *testing.T) {
	t.Parallel()
	disk := &fullDisk{}
	r := newRig(t, func(c *hub.Config) { c.Ledger = disk })
	h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
	must(t, err)
	for _, full := range []bool{true, false} {
		disk.full.Store(full)
		h.answers <- func() (json.RawMessage, *hostlink.Error) { return text("ok"), nil }
		c := request("write")
		r.call(c)
		r.hub.Delivered(c.ID)
		if full {
			continue
		}
		if got := <-h.acks; got != c.ID {
			t.Errorf("the first ack is for %s, want %s alone", got, c.ID)
		}
	}
}

func TestALateNoticeOfAnotherSortIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
	must(t, err)
	must(t, h.Notify(hostlink.MethodLate, hostlink.Late{CallID: bridge.CallID(strings.Repeat("c", 1<<20))}))
	_, err = h.Do(t.Context(), hostlink.MethodPing, nil, nil) // it has been read
	must(t, err)
	r.stop()
	info, err := os.Stat(filepath.Join(r.dir, "audit.jsonl"))
	must(t, err)
	if info.Size() > 0 {
		t.Errorf("%d bytes in the ledger about a call that never was", info.Size())
	}
}

func TestAResultThatNobodyTookOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			s := r.host("app", echo)
			left, taken, old := request("write"), request("write"), request("write")
			r.call(old)
			<-time.After(hub.Defaults().ResumeKeep / 2)
			want := r.call(left)
			r.call(taken)
			r.hub.Delivered(taken.ID)
			<-time.After(hub.Defaults().ResumeKeep/2 + time.Second) // the old one's time is over
			if crash {
				r.crash()
			} else {
				r.stop()
			}
			r.start()
			joined := r.join(left.ID, peer.Token, &watch{}) // before its host is back
			if o := <-r.join(left.ID, "another", &watch{}); !errors.Is(o.err, bridge.NotFound) {
				t.Errorf("another token's Join: %v", o.err)
			}
			if n := r.hub.Counts(); n.Queued != 0 {
				t.Errorf("%+v", n)
			}
			if o := <-joined; o.err != nil || o.State != bridge.Done || string(o.Result) != string(want.Result) || s.runs(left.ID) != 1 {
				t.Errorf("crash %v: %+v, ran %d times, want the result once", crash, o, s.runs(left.ID))
			}
			for name, c := range map[string]bridge.Call{"taken": taken, "too old": old} {
				if o := <-r.join(c.ID, peer.Token, &watch{}); !errors.Is(o.err, bridge.NotFound) {
					t.Errorf("crash %v: the %s one: %+v", crash, name, o)
				}
			}
			if n := r.ledger.Today()[bridge.Done]; n != 3 {
				t.Errorf("crash %v: %d calls in the ledger, want 3", crash, n)
			}
		})
	}
}

func TestARecalledCallWhoseHostIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := r.host("app", echo)
		c := request("write")
		r.call(c)
		r.stop()
		s.leave()
		r.start()
		began := time.Now()
		o := <-r.join(c.ID, peer.Token, &watch{})
		if !errors.Is(o.err, bridge.NotFound) || time.Since(began) > 11*time.Second {
			t.Errorf("%+v after %v, want NotFound when the grace is over", o, time.Since(began))
		}
		if rec := r.record(c.ID); rec.End.State != bridge.Done || r.ledger.Today()[bridge.Unknown] != 0 {
			t.Errorf("the ledger says %s now", rec.End.State)
		}
	})
}

func TestCallsOfTheOldProcessThatNobodyBringsBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		age  time.Duration
		come *hostlink.Hello
		want facts
	}{
		{"nobody comes", 0, nil, facts{State: bridge.Unknown, Kind: bridge.HostLost, Executed: "unknown", Retry: "check"}},
		{"the same process without it", 0, &hostlink.Hello{Instance: "i"}, facts{State: bridge.Refused, Kind: bridge.NotArrived, Executed: "no", Retry: "safe"}},
		{"the same process, but too late to know", 11 * time.Minute, &hostlink.Hello{Instance: "i"}, facts{State: bridge.Unknown, Kind: bridge.HostLost, Executed: "unknown", Retry: "check"}},
		{"another process in its place", 0, &hostlink.Hello{Instance: "other"}, facts{State: bridge.Unknown, Kind: bridge.HostLost, Executed: "unknown", Retry: "check"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
				must(t, err)
				c := request("write")
				r.begin(c, &watch{})
				<-h.calls
				r.crash()
				h.cut()
				<-time.After(tt.age)
				r.start()
				if tt.come != nil {
					tt.come.Kind, tt.come.CWD = "omp", "/home/u/app"
					_, err := r.rawHost(*tt.come)
					must(t, err)
				}
				o := <-r.join(c.ID, peer.Token, &watch{})
				if o.err != nil {
					t.Fatal(o.err)
				}
				if diff := cmp.Diff(tt.want, facts{o.State, o.Kind, o.Executed, o.Retry, ""}); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				if end := r.record(c.ID).End; end == nil || end.State != o.State {
					t.Errorf("ledger: %+v", end)
				}
			})
		})
	}
}

func TestACancelReachesACallOfTheOldProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold := newHeld()
		s := r.host("app", hold.run)
		c := request("write")
		r.begin(c, &watch{})
		<-hold.begun
		r.awaitState(c.ID, bridge.Running)
		r.crash()
		r.start()
		bySession := func(o bridge.Call) bool { return o.Ref.Session == "s1" && string(o.Ref.RPC) == "1" }
		if n := r.hub.Cancel(bySession, bridge.CancelledByPeer); n != 1 {
			t.Errorf("Cancel hit %d, want 1", n)
		}
		if o := <-r.join(c.ID, peer.Token, &watch{}); o.State != bridge.Cancelled || o.Executed != bridge.ExecutedUnknown {
			t.Errorf("%+v", o)
		}
		r.await("the host back", func() bool { return r.hub.Main().Attached })
		s.leave() // returns only when the tool has been aborted
		if n := len(hold.begun); n != 0 || s.runs(c.ID) != 1 {
			t.Errorf("ran %d times", s.runs(c.ID))
		}
	})
}

func TestAFrozenHostGetsNothingNewAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		conn, err := r.dial(r.ctx)
		must(t, err)
		f := newFreezer(conn)
		h := &raw{t: t, calls: make(chan *hostlink.Incoming, 10), ended: make(chan struct{}), closing: make(chan struct{}),
			answers: make(chan func() (json.RawMessage, *hostlink.Error), 10)}
		h.Conn = hostlink.NewConn(f, h, nil)
		go func() { defer close(h.ended); _ = h.Run(context.Background()) }()
		t.Cleanup(h.cut)
		_, err = h.Do(r.ctx, hostlink.MethodHello, hostlink.Hello{Protocol: "1.0", Kind: "omp", Instance: "i", CWD: "/home/u/app"}, nil)
		must(t, err)
		must(t, h.Notify(hostlink.MethodTools, hostlink.Tools{Hash: "h", Tools: toolList("read", "write")}))
		first := request("write")
		running := r.begin(first, &watch{})
		in := <-h.calls
		must(t, in.Event(hostlink.MethodAccepted, nil))
		r.awaitState(first.ID, bridge.Running)

		f.freeze()
		<-time.After(16 * time.Second)
		if s := r.hub.Hosts()[0].State; s != hub.HostFrozen {
			t.Fatalf("state %s, want frozen", s)
		}
		// All within the time in which an unread ping ends a pipe.
		o := r.call(request("read", func(c *bridge.Call) { c.Peer.Wait = 3 * time.Second }))
		if o.State != bridge.Expired || o.Kind != bridge.NoHost {
			t.Errorf("a call to a frozen host: %s %s", o.State, o.Kind)
		}
		waiting := r.begin(request("read"), &watch{})
		<-time.After(5 * time.Second)
		f.thaw()
		<-h.calls
		for range 2 {
			h.answers <- func() (json.RawMessage, *hostlink.Error) { return text("ok"), nil }
		}
		if a, b := <-running, <-waiting; a.State != bridge.Done || b.State != bridge.Done {
			t.Errorf("after it came back: %s and %s, want both done", a.State, b.State)
		}
	})
}

func TestADroppedDaemonLeavesItsHostsWithoutADeadLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hello := hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"}
		h, err := r.rawHost(hello)
		must(t, err)
		if _, err := r.rawHost(hello); kindOf(err) != hostlink.KindConflict {
			t.Errorf("the same instance while its link lives: %v, want conflict", err)
		}
		h.cut()
		if _, err := r.rawHost(hello); err != nil {
			t.Errorf("after its link ended: %v", err)
		}
	})
}

func kindOf(err error) string {
	var e *hostlink.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestAConnectionThatSaysNothingIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		conn, err := r.dial(r.ctx)
		must(t, err)
		began := time.Now()
		buf := make([]byte, 4096)
		for err == nil { // its pings
			_, err = conn.Read(buf)
		}
		if d := time.Since(began); d < 9*time.Second || d > 11*time.Second {
			t.Errorf("closed after %v, want about 10 s", d)
		}
	})
}

func TestHellosThatAreNotAccepted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		hello hostlink.Hello
		want  string
	}{
		{"newer protocol", hostlink.Hello{Protocol: "2.0", Instance: "i"}, hostlink.KindProtocol},
		{"older protocol", hostlink.Hello{Protocol: "0.9", Instance: "i"}, hostlink.KindProtocol},
		{"garbage protocol", hostlink.Hello{Protocol: "x", Instance: "i"}, hostlink.KindProtocol},
		{"no instance", hostlink.Hello{Protocol: "1.0"}, hostlink.KindBadHello},
		{"a novel for a name", hostlink.Hello{Protocol: "1.0", Instance: "i", Name: string(make([]byte, 5000))}, hostlink.KindBadHello},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if _, err := r.rawHost(tt.hello); kindOf(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if len(r.hub.Hosts()) != 0 {
				t.Error("it is attached all the same")
			}
		})
	}
	r := newRig(t)
	h, err := r.rawHost(hostlink.Hello{Instance: "i"})
	must(t, err)
	if _, err := h.Do(r.ctx, hostlink.MethodHello, hostlink.Hello{Protocol: "1.0", Instance: "j"}, nil); kindOf(err) != hostlink.KindBadHello {
		t.Errorf("a second hello on one link: %v", err)
	}
}

func TestBrokenStateFilesAreSetAside(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hosts.json", "catalogue.json", "paused.json"} {
		for _, content := range []string{"{", `{"version":99}`, "\x00\x00", `[]`} {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			r := newRig(t, func(*hub.Config) {})
			r.stop()
			r.dir = dir
			r.start()
			if len(r.hub.Problems()) != 1 {
				t.Errorf("%s with %q: problems %q, want one", name, content, r.hub.Problems())
			}
			if files, _ := filepath.Glob(filepath.Join(dir, name+".broken-*")); len(files) != 1 {
				t.Errorf("%s with %q: set aside %v", name, content, files)
			}
			r.host("app", echo)
			if o := r.call(request("read")); o.State != bridge.Done {
				t.Errorf("%s with %q: a call ends %s", name, content, o.State)
			}
			r.stop()
		}
	}
}

func TestAStateDirectoryThatCannotBeWrittenIsAProblemOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *hub.Config) { c.Ledger = memoryLedger{} })
	r.stop()
	r.dir = filepath.Join(r.dir, "file")
	must(t, os.WriteFile(r.dir, nil, 0o600))
	cfg := r.cfg
	cfg.StateDir = r.dir
	h, err := hub.New(cfg)
	must(t, err)
	ctx, end := context.WithCancel(context.Background())
	r.mu.Lock()
	r.hub, r.ctx, r.end = h, ctx, end
	r.mu.Unlock()
	r.work.Go(func() { _ = h.Run(ctx) })
	r.host("app", echo)
	if o := r.call(request("write")); o.State != bridge.Done {
		t.Errorf("%s: %s", o.State, o.Text)
	}
	r.await("the problem to show", func() bool { return len(h.Problems()) > 1 })
}

type memoryLedger struct{}

func (memoryLedger) Start(bridge.CallStart, bool) error { return nil }
func (memoryLedger) End(bridge.CallEnd) error           { return nil }
func (memoryLedger) Open() []bridge.CallStart           { return nil }
func (memoryLedger) Ran(time.Time) []bridge.CallStart   { return nil }
