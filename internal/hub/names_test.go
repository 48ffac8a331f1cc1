package hub_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

// name attaches a raw host and returns the name that it got.
func (r *rig) name(h hostlink.Hello) (string, *raw) {
	r.t.Helper()
	h.Kind = "omp"
	got, err := r.rawHost(h)
	must(r.t, err)
	return got.welcome.Name, got
}

func (r *rig) gone(h *raw, name string) {
	r.t.Helper()
	must(r.t, h.Notify(hostlink.MethodBye, hostlink.Bye{Reason: hostlink.ByeClosed}))
	h.cut()
	r.await(name+" gone", func() bool {
		for _, s := range r.hub.Hosts() {
			if s.Name == name {
				return false
			}
		}
		return true
	})
}

func TestNamesAreGivenAndKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	expect := func(h hostlink.Hello, want string) *raw {
		t.Helper()
		got, conn := r.name(h)
		if got != want {
			t.Errorf("%+v is named %q, want %q", h, got, want)
		}
		return conn
	}
	app := expect(hostlink.Hello{Instance: "1", CWD: "/a/app"}, "app")
	second := expect(hostlink.Hello{Instance: "2", CWD: "/a/app"}, "app-2")
	other := expect(hostlink.Hello{Instance: "3", CWD: "/b/app"}, "app-3")
	chosen := expect(hostlink.Hello{Instance: "4", CWD: "/a/app", Name: "tools"}, "tools")
	expect(hostlink.Hello{Instance: "5", CWD: "/x", Name: "tools"}, "tools-2")
	expect(hostlink.Hello{Instance: "6", CWD: "/"}, "omp")
	expect(hostlink.Hello{Instance: "7", CWD: "/a/my app ü"}, "my-app")
	expect(hostlink.Hello{Instance: "8", CWD: "/" + strings.Repeat("x", 100)}, strings.Repeat("x", 64))
	for name, h := range map[string]*raw{"app": app, "app-2": second, "app-3": other, "tools": chosen} {
		r.gone(h, name)
	}
	other = expect(hostlink.Hello{Instance: "31", CWD: "/b/app"}, "app-3") // keeps its directory's name
	second = expect(hostlink.Hello{Instance: "2", CWD: "/a/app"}, "app-2") // a known process gets its own back
	expect(hostlink.Hello{Instance: "11", CWD: "/a/app"}, "app")
	r.stop()
	other.cut()
	second.cut()
	r.start()
	expect(hostlink.Hello{Instance: "32", CWD: "/b/app"}, "app-3") // and across a restart
}

func TestOnlySoManyNamesAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		_, main := r.name(hostlink.Hello{Instance: "main", CWD: "/main"})
		for i := range 40 {
			name, h := r.name(hostlink.Hello{Instance: fmt.Sprint(i), CWD: fmt.Sprintf("/d%d", i)})
			<-time.After(time.Second)
			r.gone(h, name)
		}
		if _, err := r.hub.View("d39"); err != nil {
			t.Errorf("the newest: %v", err)
		}
		if _, err := r.hub.View("main"); err != nil {
			t.Errorf("main: %v", err)
		}
		if _, err := r.hub.View("d0"); !errors.Is(err, bridge.NotFound) {
			t.Errorf("the oldest: %v, want NotFound", err)
		}
		main.cut()
	})
}

func (r *rig) mainIs(want string) {
	r.t.Helper()
	if got := r.hub.Main().Name; got != want {
		r.t.Errorf("main is %q, want %q", got, want)
	}
}

func TestWhoIsMain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mainIs("")
		app := r.host("app", echo)
		r.mainIs("app")
		docs := r.host("docs", echo)
		r.mainIs("app")
		app.leave()
		<-time.After(time.Minute)
		r.mainIs("app") // docs was there already: nobody takes over by itself
		docs.leave()
		<-time.After(time.Second)
		docs = r.host("docs", echo)
		r.mainIs("docs") // the next to attach while nothing else is
		app = r.host("app", echo)
		r.mainIs("docs")
		must(t, r.hub.Use("app"))
		r.mainIs("app")
		app.leave()
		docs.leave()
		<-time.After(time.Second)
		r.host("docs", echo)
		r.mainIs("app") // pinned
		r.hub.UseAuto()
		r.mainIs("docs")
		if err := r.hub.Use("never-seen"); !errors.Is(err, bridge.NotFound) {
			t.Errorf("Use of an unknown name: %v", err)
		}
		r.stop()
		r.start()
		r.mainIs("docs")
	})
}

func TestALostLinkOfMainIsNoReasonToMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		_, app := r.name(hostlink.Hello{Instance: "1", CWD: "/app"})
		app.cut()
		<-time.After(time.Second)
		_, docs := r.name(hostlink.Hello{Instance: "2", CWD: "/docs"})
		r.mainIs("app")
		_, app = r.name(hostlink.Hello{Instance: "1", CWD: "/app"})
		r.mainIs("app")
		app.cut()
		<-time.After(20 * time.Second)
		r.mainIs("app") // docs was attached when it came back and left again
		r.gone(docs, "docs")
		_, docs = r.name(hostlink.Hello{Instance: "3", CWD: "/docs"})
		r.mainIs("docs")
		docs.cut()
		<-time.After(time.Second)
		r.name(hostlink.Hello{Instance: "4", CWD: "/lib"})
		r.mainIs("docs")
		<-time.After(20 * time.Second)
		r.mainIs("lib") // it came while main was thought to return, and main did not
	})
}

func TestARestartDoesNotMoveTheAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hello := func(i string) hostlink.Hello { return hostlink.Hello{Instance: i, CWD: "/" + i} }
		_, app := r.name(hello("app"))
		_, docs := r.name(hello("docs"))
		r.crashHosts(app, docs)
		_, docs = r.name(hello("docs")) // the other one is faster
		<-time.After(5 * time.Second)
		r.mainIs("app")
		_, app = r.name(hello("app"))
		r.mainIs("app")
		r.crashHosts(app, docs)
		_, lib := r.name(hello("lib")) // a newcomer while app may still return
		r.mainIs("app")
		<-time.After(11 * time.Second)
		r.mainIs("lib")
		lib.cut()
	})
}

// crashHosts lets the daemon save, crash and start again.
func (r *rig) crashHosts(hosts ...*raw) {
	<-time.After(time.Second)
	r.crash()
	for _, h := range hosts {
		h.cut()
	}
	r.start()
}

func TestEachPeerIsToldOnceThatTheSessionChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hub.SetPeers([]string{"silent"})
		as := func(name string) func(*bridge.Call) {
			return func(c *bridge.Call) { c.Peer = bridge.Peer{Token: "t-" + name, Name: name} }
		}
		app := r.host("app", echo)
		for _, name := range []string{"a", "b"} {
			if o := r.call(request("read", as(name))); o.State != bridge.Done {
				t.Fatalf("first call of %s: %s", name, o.State)
			}
		}
		app.leave()
		<-time.After(time.Second)
		waits := request("read", as("waiter"))
		waiting := r.begin(waits, &watch{})
		r.awaitState(waits.ID, bridge.Queued)
		docs := r.host("docs", echo)
		if o := <-waiting; o.Kind != bridge.Moved || o.Executed != bridge.ExecutedNo || !strings.Contains(o.Text, `(it was "app")`) {
			t.Errorf("the call that waited: %s: %s", o.Kind, o.Text)
		}
		told := func(name string) bridge.Kind { return r.call(request("read", as(name))).Kind }
		if k := told("waiter"); k != "" {
			t.Errorf("a peer that has been told is told again: %s", k)
		}
		if k := told("a"); k != bridge.Moved {
			t.Errorf("a peer's first call after the change: %q, want moved", k)
		}
		if k := told("a"); k != "" {
			t.Errorf("its second: %q", k)
		}
		if k := told("silent"); k != bridge.Moved {
			t.Errorf("a connected peer that never called: %q, want moved", k)
		}
		if k := told("new"); k != "" {
			t.Errorf("a peer that knew no other session: %q", k)
		}
		if o := r.call(request("read", as("b"), func(c *bridge.Call) { c.Host = "docs" })); o.Kind != "" {
			t.Errorf("a call by name: %s", o.Kind)
		}
		r.stop()
		r.start()
		r.await("docs back", func() bool { return r.hub.Main().Attached })
		if k := told("b"); k != bridge.Moved {
			t.Errorf("after a restart: %q, want moved", k)
		}
		if k := told("b"); k != "" {
			t.Errorf("after a restart, again: %q", k)
		}
		docs.leave()
	})
}

func TestCallsByNameWaitForThatHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		app := r.host("app", echo)
		docs := r.host("docs", echo)
		docs.leave()
		<-time.After(time.Second)
		c := request("read", func(c *bridge.Call) { c.Host = "docs" })
		got := r.begin(c, &watch{})
		r.awaitState(c.ID, bridge.Queued)
		<-time.After(time.Second)
		docs = r.host("docs", echo)
		if o := <-got; o.State != bridge.Done || docs.runs(c.ID) != 1 || app.runs(c.ID) != 0 {
			t.Errorf("%s, ran %d times at docs and %d at app", o.State, docs.runs(c.ID), app.runs(c.ID))
		}
		if o := r.call(request("read", func(c *bridge.Call) { c.Host = "nobody" })); o.Kind != bridge.NotFound {
			t.Errorf("a call to a name never seen: %s %s", o.State, o.Kind)
		}
	})
}

func TestAPauseHoldsAcrossRestartsAndEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold := newHeld()
		s := r.host("app", hold.run)
		running := r.begin(request("write"), &watch{})
		<-hold.begun
		r.hub.Pause(10 * time.Minute)
		r.await("the host to know", func() bool { return s.status().Paused })
		close(hold.let)
		if o := <-running; o.State != bridge.Done {
			t.Errorf("a call that ran: %s", o.State)
		}
		r.stop()
		r.start()
		if o := r.call(request("read")); o.Kind != bridge.Paused {
			t.Errorf("after a restart: %s %s", o.State, o.Kind)
		}
		<-time.After(10 * time.Minute)
		r.await("the host back", func() bool { return r.hub.Main().Attached })
		if o := r.call(request("read")); o.State != bridge.Done {
			t.Errorf("after the pause: %s %s", o.State, o.Kind)
		}
		r.await("the host to know", func() bool { return !s.status().Paused })
		r.hub.Pause(0)
		r.hub.Resume()
		if paused, _ := r.hub.Paused(); paused {
			t.Error("paused after Resume")
		}
		r.stop()
		r.start()
		if paused, _ := r.hub.Paused(); paused {
			t.Error("paused again after a restart")
		}
	})
}

func TestHostsSeeTheirStatusLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold := newHeld()
		s := r.host("app", hold.run)
		r.hub.SetPeers([]string{"laptop"})
		got := r.begin(request("write"), &watch{})
		<-hold.begun
		want := hostlink.You{Name: "app", Main: true, Peers: []string{"laptop"}, Running: 1}
		r.await("the status line", func() bool { return cmp.Equal(want, s.status()) })
		close(hold.let)
		<-got
		want.Running = 0
		r.await("the status line afterwards", func() bool { return cmp.Equal(want, s.status()) })
	})
}

func TestStatusShowsWhatIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold := newHeld()
		s := r.newHost(hostlink.Hello{Kind: "omp", Version: "18.1.16", Extension: "1.0", PID: 0, CWD: "/home/u/app", TTY: "/dev/pts/3", Tmux: "work:0.0", Gate: true,
			Session: hostlink.Session{ID: "x", Name: "fix the build"}}, hold.run)
		r.await("attached", func() bool { return len(r.hub.Hosts()) == 1 && r.hub.Hosts()[0].Tools == 2 })
		c := request("write", func(c *bridge.Call) { c.Args = []byte(`{"command":"rm -rf build"}`) })
		r.begin(c, &watch{})
		<-hold.begun
		r.awaitState(c.ID, bridge.Running)
		host := r.hub.Hosts()[0]
		want := hub.HostStatus{Name: "app", Title: "fix the build", Kind: "omp", Version: "18.1.16", Extension: "1.0", CWD: "/home/u/app", Main: true, Gate: true,
			State: hub.HostIdle, AttachedAt: host.AttachedAt, Tools: 2, TTY: "/dev/pts/3", Tmux: "work:0.0", Running: 1}
		if diff := cmp.Diff(want, host); diff != "" {
			t.Errorf("host (-want +got):\n%s", diff)
		}
		open := r.hub.Calls()[0]
		if open.ID != c.ID || open.Peer != "laptop" || open.Host != "app" || string(open.Args) != string(c.Args) {
			t.Errorf("open call %+v", open)
		}
		s.SetState(hostlink.StateBusy, hostlink.Session{Name: "next"})
		r.await("busy", func() bool { return r.hub.Hosts()[0].State == hub.HostBusy && r.hub.Hosts()[0].Title == "next" })
		must(t, r.hub.Exercise(r.ctx))
		if r.hub.Idle() {
			t.Error("idle with a host attached")
		}
		close(hold.let)
	})
}

func TestAWelcomeSaysWhereThisHostIsReached(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *hub.Config) {
		c.Address = func() string { return "http://127.0.0.1:7717/mcp" }
		c.TokenNames = func() []string { return []string{"ci", "laptop"} }
		c.Seen = func() []string { return []string{"laptop"} }
	})
	for _, step := range []struct{ name, address string }{
		{"app", "http://127.0.0.1:7717/mcp"},
		{"docs", "http://127.0.0.1:7717/mcp/docs"},
	} {
		_, h := r.name(hostlink.Hello{Instance: step.name, PID: os.Getpid(), CWD: "/" + step.name})
		got := []any{h.welcome.Name, h.welcome.Address, h.welcome.MainName, h.welcome.Names, h.welcome.Seen}
		want := []any{step.name, step.address, "app", []string{"ci", "laptop"}, []string{"laptop"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("welcome of %s (-want +got):\n%s", step.name, diff)
		}
	}
}
