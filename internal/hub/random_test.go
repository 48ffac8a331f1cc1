package hub_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

// TestPromisesHoldInAnyOrderOfEvents plays random lives: hosts come, go, lose
// their link and return; callers call, cancel, leave and resume; the daemon
// stops, crashes and starts. Whatever happens, a call runs at most once, ends
// exactly once in the ledger, and its caller hears what the ledger says.
func TestPromisesHoldInAnyOrderOfEvents(t *testing.T) {
	t.Parallel()
	lives := 60
	if testing.Short() {
		lives = 10
	}
	for seed := range lives {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newLife(t, uint64(seed)).play() })
		})
	}
}

type life struct {
	*rig
	rnd   *rand.Rand
	hosts map[string]*scripted
	all   []*scripted
	calls []bridge.Call

	mu      sync.Mutex
	epoch   int // of the daemon process
	pending sync.WaitGroup
	heard   map[bridge.CallID]bridge.Outcome
	done    map[bridge.CallID]int // tools that came to their end
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{rnd: rand.New(rand.NewPCG(seed, 7)), hosts: map[string]*scripted{}, heard: map[bridge.CallID]bridge.Outcome{}, done: map[bridge.CallID]int{}}
	l.rig = newRig(t, func(c *hub.Config) {
		c.Concurrency, c.QueueCalls = 1+l.rnd.IntN(4), 1+l.rnd.IntN(20)
		c.QueueWait = time.Duration(1+l.rnd.IntN(20)) * time.Second
		c.ApprovalTimeout = 5 * time.Second
		if l.rnd.IntN(5) == 0 {
			c.QueueMode = hub.RejectMode
		}
	})
	return l
}

func (l *life) play() {
	for range 150 {
		l.step()
		<-time.After(time.Duration(l.rnd.IntN(800)) * time.Millisecond)
	}
	for _, s := range l.hosts {
		s.leave()
	}
	<-time.After(20 * time.Second)
	l.rig.stop()
	l.pending.Wait()
	l.rig.start() // what is still open belongs to nobody
	<-time.After(20 * time.Second)
	l.check()
}

func (l *life) step() {
	switch n := l.rnd.IntN(100); {
	case n < 45:
		l.call()
	case n < 60:
		l.attachOrLeave()
	case n < 68:
		if s := l.anyHost(); s != nil {
			s.Drop()
		}
	case n < 73:
		if s := l.anyHost(); s != nil {
			s.mu.Lock()
			s.cut = !s.cut
			s.mu.Unlock()
			s.Drop()
		}
	case n < 85:
		c := l.anyCall()
		why := []bridge.Kind{bridge.CancelledByPeer, bridge.CancelledHere, bridge.CallerGone}[l.rnd.IntN(3)]
		l.hub.Cancel(func(o bridge.Call) bool { return o.ID == c.ID }, why)
	case n < 93:
		c := l.anyCall()
		l.follow(c.ID, func(h *hub.Hub, ctx context.Context) (bridge.Outcome, error) {
			return h.Join(ctx, c.ID, peer.Token, &watch{})
		})
	case n < 95:
		l.restart(true)
	case n < 97:
		l.restart(false)
	default:
		l.hub.Delivered(l.anyCall().ID)
	}
}

func (l *life) restart(crash bool) {
	l.mu.Lock()
	l.epoch++ // before anything can be heard that the ledger does not have
	l.mu.Unlock()
	if crash {
		l.crash()
	} else {
		l.stop()
	}
	l.pending.Wait()
	<-time.After(time.Duration(l.rnd.IntN(12)) * time.Second)
	l.start()
}

func (l *life) call() {
	c := request([]string{"read", "write"}[l.rnd.IntN(2)], func(c *bridge.Call) {
		c.Ref.Session = fmt.Sprint(l.rnd.IntN(3))
		c.Peer.Name = fmt.Sprint("peer", l.rnd.IntN(3))
		c.Host = []string{"", "", "", "app"}[l.rnd.IntN(4)]
		c.Peer.Wait = 0
	})
	l.calls = append(l.calls, c)
	w := &watch{}
	slow := time.Duration(l.rnd.IntN(3)) * 100 * time.Millisecond
	gone := l.rnd.IntN(20) == 0
	w.handOver = func() error {
		<-time.After(slow)
		if gone {
			return context.Canceled
		}
		return nil
	}
	l.follow(c.ID, func(h *hub.Hub, ctx context.Context) (bridge.Outcome, error) { return h.Call(ctx, c, w) })
}

// follow runs Call or Join on the present daemon, with a caller who may leave.
func (l *life) follow(id bridge.CallID, call func(*hub.Hub, context.Context) (bridge.Outcome, error)) {
	h, ctx := l.hub, l.ctx
	leave := func() {}
	if l.rnd.IntN(4) == 0 {
		ctx, leave = context.WithTimeout(ctx, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
	}
	l.mu.Lock()
	epoch := l.epoch
	l.mu.Unlock()
	l.pending.Go(func() {
		defer leave()
		o, err := call(h, ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil || epoch != l.epoch {
			return
		}
		if was, ok := l.heard[id]; ok && (was.State != o.State || was.Executed != o.Executed) {
			l.t.Errorf("call %s: heard %s and %s", id, was.State, o.State)
		}
		l.heard[id] = o
	})
}

func (l *life) attachOrLeave() {
	name := []string{"app", "docs"}[l.rnd.IntN(2)]
	if s := l.hosts[name]; s != nil {
		s.leave()
		delete(l.hosts, name)
		return
	}
	s := l.newHost(hostlink.Hello{Kind: "omp", CWD: "/" + name}, l.tool)
	l.hosts[name] = s
	l.all = append(l.all, s)
}

// tool takes some time, asks its owner now and then, and does not always
// listen to a cancel.
func (l *life) tool(ctx context.Context, c hostlink.CallParams, e hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	n := 0
	for _, b := range []byte(c.CallID) {
		n += int(b)
	}
	if n%5 == 0 {
		e.Approval(hostlink.ApprovalPending)
		<-time.After(time.Duration(n%9) * time.Second)
		if ctx.Err() != nil {
			return nil, fault(hostlink.KindNotApproved, "", bridge.ExecutedNo)
		}
		e.Approval(hostlink.ApprovalApproved)
	}
	e.Progress("working")
	work := time.After(time.Duration(n%40) * 100 * time.Millisecond)
	if n%3 == 0 {
		<-work
	} else {
		select {
		case <-work:
		case <-ctx.Done():
			return nil, fault(hostlink.KindCancelled, "", bridge.ExecutedUnknown)
		}
	}
	l.mu.Lock()
	l.done[c.CallID]++
	l.mu.Unlock()
	return text(string(c.CallID)), nil
}

func (l *life) anyHost() *scripted {
	for _, name := range []string{"app", "docs"} {
		if s := l.hosts[name]; s != nil && l.rnd.IntN(2) == 0 {
			return s
		}
	}
	return nil
}

func (l *life) anyCall() bridge.Call {
	if len(l.calls) == 0 {
		return bridge.Call{}
	}
	newest := l.calls[max(0, len(l.calls)-10):]
	return newest[l.rnd.IntN(len(newest))]
}

// check compares what ran, what was heard and what is written.
func (l *life) check() {
	l.t.Helper()
	starts, ends := map[bridge.CallID]int{}, map[bridge.CallID][]bridge.CallEnd{}
	l.lines(func(s *bridge.CallStart, e *bridge.CallEnd) {
		if s != nil {
			starts[s.ID]++
		}
		if e != nil && !e.Late {
			ends[e.ID] = append(ends[e.ID], *e)
		}
	})
	if open := l.hub.Calls(); len(open) > 0 {
		l.t.Errorf("still open: %+v", open)
	}
	for _, c := range l.calls {
		begun := 0
		for _, s := range l.all {
			begun += s.runs(c.ID)
		}
		o, heard := l.heard[c.ID]
		es := ends[c.ID]
		switch {
		case begun > 1:
			l.t.Errorf("call %s ran %d times", c.ID, begun)
		case begun == 1 && starts[c.ID] == 0:
			l.t.Errorf("call %s ran without a start in the ledger", c.ID)
		case len(es) > 1, starts[c.ID] > 0 && len(es) != 1:
			l.t.Errorf("call %s has %d starts and %d ends: %+v", c.ID, starts[c.ID], len(es), es)
		case heard && (len(es) != 1 || es[0].State != o.State || es[0].Executed != o.Executed || es[0].Kind != o.Kind):
			l.t.Errorf("call %s: heard %s %s, the ledger says %+v", c.ID, o.State, o.Kind, es)
		case heard && o.State == bridge.Done && l.done[c.ID] != 1:
			l.t.Errorf("call %s is done and came to its end %d times", c.ID, l.done[c.ID])
		case len(es) == 1 && es[0].Executed == bridge.ExecutedNo && es[0].Kind != bridge.NotApproved && l.done[c.ID] > 0:
			l.t.Errorf("call %s: said not executed (%s), but it was", c.ID, es[0].Kind)
		}
	}
	if l.t.Failed() {
		l.lines(func(s *bridge.CallStart, e *bridge.CallEnd) {
			if s != nil {
				l.t.Logf("start %s at %s to %s", s.ID, s.At.Format("05.000"), s.Host)
			} else {
				l.t.Logf("end %s at %s: %s %s %s late=%v", e.ID, e.At.Format("05.000"), e.State, e.Kind, e.Executed, e.Late)
			}
		})
	}
}

func (l *life) lines(each func(*bridge.CallStart, *bridge.CallEnd)) {
	files, _ := filepath.Glob(filepath.Join(l.dir, "audit.jsonl*"))
	for _, name := range files {
		f, err := os.Open(name)
		must(l.t, err)
		for in := bufio.NewScanner(f); in.Scan(); {
			var line struct {
				Start *bridge.CallStart
				End   *bridge.CallEnd
			}
			must(l.t, json.Unmarshal(in.Bytes(), &line))
			each(line.Start, line.End)
		}
		must(l.t, f.Close())
	}
}
