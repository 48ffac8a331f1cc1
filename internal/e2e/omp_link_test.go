package e2e_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

func TestOMPFirstDaemonLater(t *testing.T) {
	t.Parallel()
	d := newLinkDaemon(t)
	omp := bridgetest.StartOMP(t, bridgetest.OMPOptions{HostSocket: d.path, Name: "docs"})
	host := d.start(t).host(t)
	if host.hello.PID != omp.PID() || host.hello.Name != "docs" {
		t.Errorf("hello: %+v", host.hello)
	}
	omp.Notice(t, `a2a: attached as "app" on http://127.0.0.1:7717/mcp. No peers yet.`)
}

func TestOMPFindsARestartedDaemonByItself(t *testing.T) {
	t.Parallel()
	d := newLinkDaemon(t).start(t)
	d.welcome = func(_ *linkedHost, w *hostlink.Welcome) { w.Insecure, w.Names = true, []string{"laptop"} }
	omp := bridgetest.StartOMP(t, bridgetest.OMPOptions{HostSocket: d.path})
	first := d.host(t)
	omp.Notice(t, "listens beyond loopback")
	first.Close()
	<-first.ended

	second := d.host(t)
	if first.hello.Instance != second.hello.Instance || first.hello.Catalogue != second.hello.Catalogue {
		t.Errorf("it came back as %+v, it was %+v", second.hello, first.hello)
	}
	second.call(t, "bash", args{"command": "echo hello again"}).ok(t)
	status := func(text string) {
		t.Helper()
		omp.Await(t, "the status "+text, func(f bridgetest.Frame) bool {
			return f.Text("method") == "setStatus" && f.Text("statusText") == text
		})
	}
	status("a2a app · reconnecting")
	if err := second.Notify(hostlink.MethodYou, hostlink.You{Name: "app", Main: true, Peers: []string{"laptop"}}); err != nil {
		t.Fatal(err)
	}
	status("a2a app · laptop")
}

func TestOMPKeepsCallsOverALostLink(t *testing.T) {
	t.Parallel()
	d := newLinkDaemon(t).start(t)
	resumed := map[bridge.CallID]*linkedCall{}
	d.welcome = func(h *linkedHost, w *hostlink.Welcome) {
		for n, c := range append(h.hello.Running, h.hello.Unacked...) {
			call := newLinkedCall(h, c.CallID)
			call.id = int64(100 + n)
			if err := h.Adopt(call.id, call.event, call.end); err != nil {
				t.Error(err)
			}
			resumed[c.CallID] = call
			w.Resumed = append(w.Resumed, hostlink.Resumed{CallID: c.CallID, ID: call.id})
			if got := string(c.Ref); !strings.Contains(got, "12345678901234567890") {
				t.Errorf("the reference came back as %s", got)
			}
		}
	}
	omp := bridgetest.StartOMP(t, bridgetest.OMPOptions{HostSocket: d.path})
	host := d.host(t)
	in := func(name string) string { return filepath.Join(omp.Dir, name) }

	running := host.call(t, "bash", args{"command": "echo begun >> runs; until [ -e go ]; do sleep 0.05; done; echo ended"})
	finished := host.call(t, "bash", args{"command": "echo finished | tee -a runs"})
	finished.wait(t) // and never acknowledged
	running.heardEvent(t, "accepted")
	bridgetest.Eventually(t, "the call runs", func() bool { return exists(in("runs")) })
	host.Close()
	<-host.ended

	host = d.host(t)
	if len(resumed) != 2 {
		t.Fatalf("%d calls came back", len(resumed))
	}
	if got := resumed[finished.callID].ok(t); !strings.Contains(got.text(), "finished") {
		t.Errorf("the kept answer is %+v", got)
	}
	resumed[running.callID].heardEvent(t, "accepted")

	// lost again, and the call ends while there is no link
	d.stop()
	<-host.ended
	writeFile(t, in("go"), "")
	last := running.callID
	d.start(t)
	host = d.host(t)
	if got := resumed[last].ok(t); !strings.Contains(got.text(), "ended") {
		t.Errorf("the answer is %+v", got)
	}
	if got := host.call(t, "bash", args{"command": "sort runs"}).ok(t).text(); strings.Count(got, "begun") != 1 || strings.Count(got, "finished") != 1 {
		t.Errorf("what ran: %q", got)
	}
}

func TestOMPAbortsWhatTheDaemonNoLongerWants(t *testing.T) {
	t.Parallel()
	omp, host, d := attachOMP(t, bridgetest.OMPOptions{})
	host.call(t, "bash", args{"command": "sh -c 'echo $$ > child; exec sleep 300'"})
	pid := awaitPID(t, filepath.Join(omp.Dir, "child"))
	host.Close()
	next := d.host(t) // resumes nothing
	if len(next.hello.Running) != 1 {
		t.Errorf("running: %+v", next.hello.Running)
	}
	bridgetest.Eventually(t, "the command is gone", func() bool { return !bridgetest.ProcessAlive(pid) })
}

func TestOMPFrozenAndBack(t *testing.T) {
	t.Parallel()
	omp, host, _ := attachOMP(t, bridgetest.OMPOptions{})
	omp.Signal(t, syscall.SIGSTOP)
	c := host.call(t, "bash", args{"command": "echo once >> runs; cat runs"})
	select {
	case <-c.done:
		t.Fatal("a stopped omp has answered")
	case <-time.After(200 * time.Millisecond):
	}
	omp.Signal(t, syscall.SIGCONT)
	if got := c.ok(t).text(); strings.Count(got, "once") != 1 {
		t.Errorf("bash = %q", got)
	}
}

func TestOMPWaitsAfterAnotherProtocolVersion(t *testing.T) {
	t.Parallel()
	d := newLinkDaemon(t).start(t)
	d.refuse = &hostlink.Error{Kind: hostlink.KindProtocol, Message: "update the extension: a2actl omp install", Executed: bridge.ExecutedNo}
	omp := bridgetest.StartOMP(t, bridgetest.OMPOptions{HostSocket: d.path})
	omp.Notice(t, "update the extension: a2actl omp install")
	if !omp.Alive() {
		t.Error("omp has ended")
	}
	bridgetest.Eventually(t, "one attempt", func() bool { return d.hellos.Load() == 1 })
}
