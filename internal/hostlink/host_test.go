package hostlink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// daemon is the other end of a Host: it welcomes every link and wants every
// call back, unless it is told otherwise.
type daemon struct {
	t       testing.TB
	pipe    func() (net.Conn, net.Conn)
	links   chan *daemonLink
	refuse  *hostlink.Error
	notices chan string
	dials   atomic.Int32
	results chan answer // of resumed calls
}

type daemonLink struct {
	*hostlink.Conn
	hello hostlink.Hello
}

type answer struct {
	call   bridge.CallID
	result string
	err    error
}

func newDaemon(t testing.TB) *daemon {
	return &daemon{t: t, links: make(chan *daemonLink, 8), notices: make(chan string, 64), results: make(chan answer, 256),
		pipe: func() (net.Conn, net.Conn) { return socketPair(t) }}
}

func (d *daemon) dial(context.Context) (net.Conn, error) {
	d.dials.Add(1)
	ours, theirs := d.pipe()
	var c *hostlink.Conn
	ready := make(chan struct{})
	c, _ = runConn(d.t, ours, handler{
		request: func(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
			<-ready
			return d.request(c, r)
		},
		notice: func(method string, params json.RawMessage) { d.notices <- method + " " + string(params) },
	})
	close(ready)
	return theirs, nil
}

func (d *daemon) request(c *hostlink.Conn, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
	if r.Method != hostlink.MethodHello {
		return r.Params, nil
	}
	if d.refuse != nil {
		return nil, d.refuse
	}
	var hello hostlink.Hello
	if err := json.Unmarshal(r.Params, &hello); err != nil {
		d.t.Errorf("hello: %v", err)
	}
	welcome := hostlink.Welcome{Daemon: "test", Protocol: hostlink.Protocol, Name: "app", Catalogue: hostlink.CatalogueKnown}
	for i, ref := range append(hello.Running, hello.Unacked...) {
		id := int64(i + 1)
		err := c.Adopt(id, nil, func(result json.RawMessage, err error) { d.results <- answer{ref.CallID, string(result), err} })
		if err != nil {
			d.t.Errorf("Adopt: %v", err)
		}
		welcome.Resumed = append(welcome.Resumed, hostlink.Resumed{CallID: ref.CallID, ID: id})
	}
	raw, err := json.Marshal(welcome)
	if err != nil {
		d.t.Error(err)
	}
	if err := r.Reply(raw); err != nil {
		d.t.Errorf("Reply: %v", err)
	}
	d.links <- &daemonLink{c, hello}
	return nil, nil
}

func (l *daemonLink) call(t testing.TB, p hostlink.CallParams) (json.RawMessage, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return l.Do(ctx, hostlink.MethodCall, p, nil)
}

// startHost runs a host with the tool "tool" for the length of the test.
func startHost(t testing.TB, d *daemon, cfg hostlink.HostConfig) *hostlink.Host {
	t.Helper()
	cfg.Dial = d.dial
	if cfg.Backoff == (hostlink.Backoff{}) {
		cfg.Backoff = hostlink.Backoff{First: time.Millisecond, Max: 5 * time.Millisecond}
	}
	h := hostlink.NewHost(cfg)
	h.SetTools(scriptedTools("tool"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return h
}

type run = func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error)

func ids(refs []hostlink.CallRef) []bridge.CallID {
	var out []bridge.CallID
	for _, r := range refs {
		out = append(out, r.CallID)
	}
	return out
}

func TestACallIdNeverStartsTwice(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var runs atomic.Int32
	finish := make(chan struct{})
	startHost(t, d, hostlink.HostConfig{Run: func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		runs.Add(1)
		<-finish
		return json.RawMessage(`{"content":[]}`), nil
	}})
	l := <-d.links
	var all sync.WaitGroup
	var accepted sync.WaitGroup
	accepted.Add(20)
	for range 20 {
		all.Add(1)
		_, err := l.Start(hostlink.MethodCall, hostlink.CallParams{CallID: "c_1", Tool: "tool"},
			func(string, json.RawMessage) { accepted.Done() },
			func(result json.RawMessage, err error) {
				defer all.Done()
				if string(result) != `{"content":[]}` || err != nil {
					t.Errorf("answer = %s, %v", result, err)
				}
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	accepted.Wait()
	close(finish)
	all.Wait()
	if got, err := l.call(t, hostlink.CallParams{CallID: "c_1", Tool: "tool"}); string(got) != `{"content":[]}` || err != nil {
		t.Errorf("after the end: %s, %v, want the kept answer", got, err)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

func TestRunningCallsSurviveLostLinks(t *testing.T) {
	t.Parallel()
	const calls = 20
	d := newDaemon(t)
	finish := make(chan struct{})
	var runs, aborted atomic.Int32
	startHost(t, d, hostlink.HostConfig{Run: func(ctx context.Context, c hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		runs.Add(1)
		select {
		case <-finish:
		case <-ctx.Done():
			aborted.Add(1)
		}
		return json.RawMessage(fmt.Sprintf(`{"id":%q}`, c.CallID)), nil
	}})
	l := <-d.links
	var accepted sync.WaitGroup
	var want []bridge.CallID
	for i := range calls {
		id := bridge.CallID(fmt.Sprintf("c_%02d", i))
		want = append(want, id)
		accepted.Add(1)
		_, err := l.Start(hostlink.MethodCall, hostlink.CallParams{CallID: id, Ref: json.RawMessage(`{"n":9007199254740993}`), Tool: "tool"},
			func(string, json.RawMessage) { accepted.Done() },
			func(_ json.RawMessage, err error) {
				if !errors.Is(err, hostlink.ErrLinkLost) {
					t.Errorf("on the lost link: %v", err)
				}
			})
		if err != nil {
			t.Fatal(err)
		}
		accepted.Wait() // so that they are in order
	}
	for range 3 {
		l.Close()
		l = <-d.links
		if diff := cmp.Diff(want, ids(l.hello.Running)); diff != "" {
			t.Fatalf("running (-want +got):\n%s", diff)
		}
		if got := string(l.hello.Running[0].Ref); got != `{"n":9007199254740993}` {
			t.Errorf("ref = %s, want its bytes", got)
		}
		// What the earlier links' Adopt got is their loss.
		for len(d.results) > 0 {
			<-d.results
		}
	}
	close(finish)
	got := map[bridge.CallID]string{}
	for len(got) < calls {
		if a := <-d.results; a.err == nil {
			got[a.call] = a.result
		}
	}
	for _, id := range want {
		if got[id] != fmt.Sprintf(`{"id":%q}`, id) {
			t.Errorf("%s: %s", id, got[id])
		}
	}
	if runs.Load() != calls || aborted.Load() != 0 {
		t.Errorf("%d runs and %d aborted, want %d and none", runs.Load(), aborted.Load(), calls)
	}
}

func TestAResultThatIsLetGoLeavesTheWordThatItRan(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	big := json.RawMessage(`{"t":"` + strings.Repeat("x", 12<<10) + `"}`)
	h := startHost(t, d, hostlink.HostConfig{Run: func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		return big, nil
	}})
	l := <-d.links
	h.SetKeepBytes(66 << 10) // five of the results
	for i := range 8 {
		if _, err := l.call(t, hostlink.CallParams{CallID: bridge.CallID(fmt.Sprint("c_", i)), Tool: "tool"}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = <-d.links
	want := []bridge.CallID{"c_0", "c_1", "c_2", "c_3", "c_4", "c_5", "c_6", "c_7"}
	if diff := cmp.Diff(want, ids(l.hello.Unacked)); diff != "" {
		t.Errorf("unacked (-want +got):\n%s", diff)
	}
	for range want {
		a := <-d.results
		var e *hostlink.Error
		gone := errors.As(a.err, &e) && e.Kind == hostlink.KindFault && e.Executed == bridge.ExecutedYes
		if a.call < "c_3" && !gone || a.call >= "c_3" && a.result != string(big) {
			t.Errorf("%s: %d bytes, %v", a.call, len(a.result), a.err)
		}
	}
}

func TestKeptAnswersAreBoundedByTheirNumber(t *testing.T) {
	t.Parallel()
	const most = 2048
	d := newDaemon(t)
	d.results = make(chan answer, most)
	startHost(t, d, hostlink.HostConfig{Run: echoRun})
	l := <-d.links
	for i := range most + 2 {
		if _, err := l.call(t, hostlink.CallParams{CallID: bridge.CallID(fmt.Sprint("c_", i)), Tool: "tool"}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = <-d.links
	if got := ids(l.hello.Unacked); len(got) != most || got[0] != "c_2" {
		t.Errorf("%d unacked from %s on, want the last %d", len(got), got[0], most)
	}
}

func TestKeptAnswersAreForgottenInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(t)
		d.pipe = net.Pipe
		startHost(t, d, hostlink.HostConfig{Run: echoRun})
		l := <-d.links
		call := func(id bridge.CallID) {
			if _, err := l.call(t, hostlink.CallParams{CallID: id, Tool: "tool", Args: json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
		call("c_old")
		<-time.After(9 * time.Minute)
		call("c_new")
		call("c_acked")
		if err := l.Notify(hostlink.MethodAck, hostlink.Ack{CallID: "c_acked"}); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		l.Close()
		l = <-d.links
		if diff := cmp.Diff([]bridge.CallID{"c_new"}, ids(l.hello.Unacked)); diff != "" {
			t.Errorf("unacked (-want +got):\n%s", diff)
		}
	})
}

func echoRun(_ context.Context, c hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	return c.Args, nil
}

func TestWhatAToolAnswersMustBeAnObject(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	startHost(t, d, hostlink.HostConfig{Run: echoArgsText})
	l := <-d.links
	for i, text := range []string{"", "null", "[]", `{"a":`, "{\"a\":\"\xff\"}", `{} {}`} {
		args, _ := json.Marshal(map[string][]byte{"raw": []byte(text)})
		_, err := l.call(t, hostlink.CallParams{CallID: bridge.CallID(fmt.Sprint("c_", i)), Tool: "tool", Args: args})
		var e *hostlink.Error
		if !errors.As(err, &e) || e.Kind != hostlink.KindFault || e.Executed != bridge.ExecutedYes {
			t.Errorf("a result of %q: %v, want a fault of something that ran", text, err)
		}
	}
	args, _ := json.Marshal(map[string][]byte{"raw": []byte("{\n\"a\":\n1.0}")})
	if got, err := l.call(t, hostlink.CallParams{CallID: "c_ok", Tool: "tool", Args: args}); string(got) != `{"a":1.0}` || err != nil {
		t.Errorf("a result with newlines: %s, %v", got, err)
	}
}

func TestAResultOverTheLimitIsRefusedByName(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	startHost(t, d, hostlink.HostConfig{Run: func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		return json.RawMessage(`{"t":"` + strings.Repeat("x", hostlink.MaxFrame) + `"}`), nil
	}})
	l := <-d.links
	_, err := l.call(t, hostlink.CallParams{CallID: "c_1", Tool: "tool"})
	var e *hostlink.Error
	if !errors.As(err, &e) || e.Kind != hostlink.KindResultTooLarge || e.Executed != bridge.ExecutedYes {
		t.Errorf("call = %v, want resultTooLarge", err)
	}
	if _, err := l.Do(t.Context(), hostlink.MethodPing, nil, nil); err != nil {
		t.Errorf("the link did not survive: %v", err)
	}
}

func echoArgsText(_ context.Context, c hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
	var args map[string][]byte
	_ = json.Unmarshal(c.Args, &args)
	return args["raw"], nil
}

func TestProgressIsThrottledAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		latest bool
		last   string // the end of the last text
	}{
		"joined": {last: "98 99 "},
		"latest": {latest: true, last: "99 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDaemon(t)
				d.pipe = net.Pipe
				startHost(t, d, hostlink.HostConfig{LatestProgress: tc.latest,
					Run: func(_ context.Context, _ hostlink.CallParams, emit hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
						for i := range 100 {
							emit.Progress(fmt.Sprint(i, " "))
							<-time.After(30 * time.Millisecond)
						}
						emit.Progress("")
						return json.RawMessage(`{}`), nil
					}})
				l := <-d.links
				var texts []string
				var at []time.Time
				over := make(chan struct{})
				_, err := l.Start(hostlink.MethodCall, hostlink.CallParams{CallID: "c_1", Tool: "tool"}, func(method string, params json.RawMessage) {
					var p hostlink.Progress
					if method == hostlink.MethodProgress && json.Unmarshal(params, &p) == nil {
						texts, at = append(texts, p.Text), append(at, time.Now())
					}
				}, func(json.RawMessage, error) { close(over) })
				if err != nil {
					t.Fatal(err)
				}
				<-over
				for i := 5; i < len(at)-1; i++ { // the last one goes out whatever the rate
					if at[i].Sub(at[i-5]) < time.Second {
						t.Errorf("events %d to %d came within %v", i-5, i, at[i].Sub(at[i-5]))
					}
				}
				if len(texts) < 10 || !strings.HasSuffix(texts[len(texts)-1], tc.last) {
					t.Errorf("texts = %q, want a last one that ends with %q", texts, tc.last)
				}
				var want strings.Builder
				for i := range 100 {
					fmt.Fprint(&want, i, " ")
				}
				if got := strings.Join(texts, ""); !tc.latest && got != want.String() {
					t.Errorf("joined = %q, want everything", got)
				}
			})
		})
	}
}

func TestProgressTextIsBounded(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	startHost(t, d, hostlink.HostConfig{Run: func(_ context.Context, _ hostlink.CallParams, emit hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		emit.Progress(strings.Repeat("é", hostlink.MaxProgress) + "x")
		return json.RawMessage(`{}`), nil
	}})
	l := <-d.links
	var got hostlink.Progress
	_, err := l.Do(t.Context(), hostlink.MethodCall, hostlink.CallParams{CallID: "c_1", Tool: "tool"}, func(method string, params json.RawMessage) {
		if method == hostlink.MethodProgress {
			_ = json.Unmarshal(params, &got)
		}
	})
	if want := strings.Repeat("é", hostlink.MaxProgress/2-1) + "x"; err != nil || got.Text != want {
		t.Errorf("text of %d bytes, %v, want the last %d in whole characters", len(got.Text), err, len(want))
	}
}

func TestAHostOfAnotherVersionTriesOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(t)
		d.pipe = net.Pipe
		d.refuse = &hostlink.Error{Kind: hostlink.KindProtocol, Message: "update"}
		startHost(t, d, hostlink.HostConfig{Run: echoRun, Backoff: hostlink.Backoff{First: time.Second}})
		<-time.After(10*time.Minute + time.Second)
		if n := d.dials.Load(); n != 11 {
			t.Errorf("%d dials in ten minutes, want one a minute", n)
		}
	})
}

func TestBackOffGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials []time.Duration
		began := time.Now()
		h := hostlink.NewHost(hostlink.HostConfig{Run: echoRun, Dial: func(context.Context) (net.Conn, error) {
			dials = append(dials, time.Since(began))
			return nil, errors.New("nobody is there")
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
		for i := 1; i < len(dials); i++ {
			full := min(100*time.Millisecond<<(i-1), 5*time.Second)
			if wait := dials[i] - dials[i-1]; wait > full || wait < full/2 {
				t.Errorf("wait %d was %v, want %v to %v", i, wait, full/2, full)
			}
		}
		if len(dials) < 15 {
			t.Errorf("%d dials in a minute", len(dials))
		}
	})
}

func TestARequestWaitsForTheLink(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	h := hostlink.NewHost(hostlink.HostConfig{Dial: d.dial, Run: echoRun})
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := h.Request(short, hostlink.Request{Verb: hostlink.VerbStatus}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Request without a link = %v, want its ctx's end", err)
	}
	got := make(chan string, 1)
	go func() {
		raw, err := h.Request(t.Context(), hostlink.Request{Verb: hostlink.VerbPause, ForMs: 600000})
		got <- fmt.Sprint(string(raw), err)
	}()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	if diff := cmp.Diff(`{"verb":"pause","forMs":600000}<nil>`, <-got); diff != "" {
		t.Errorf("Request (-want +got):\n%s", diff)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestTheEndOfAHostAbortsItsCallsAndSaysBye(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	started, aborted := make(chan struct{}), make(chan struct{})
	h := hostlink.NewHost(hostlink.HostConfig{Dial: d.dial, Run: func(ctx context.Context, _ hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		close(started)
		<-ctx.Done()
		close(aborted)
		return json.RawMessage(`{}`), nil
	}})
	h.SetTools(scriptedTools("tool"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	l := <-d.links
	if _, err := l.Start(hostlink.MethodCall, hostlink.CallParams{CallID: "c_1", Tool: "tool"}, nil, func(json.RawMessage, error) {}); err != nil {
		t.Fatal(err)
	}
	<-started
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	select {
	case <-aborted:
	default:
		t.Error("Run returned before the tool")
	}
	if got := <-d.notices; got != `bye {"reason":"closed"}` {
		t.Errorf("the daemon got %s, want bye", got)
	}
}

func TestChangesAreAnnounced(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	h := startHost(t, d, hostlink.HostConfig{Run: echoRun})
	<-d.links
	tools := scriptedTools("other")
	h.SetTools(tools)
	if got, want := <-d.notices, `tools {"hash":"`+hostlink.CatalogueHash(tools)+`","tools":[{"name":"other",`; !strings.HasPrefix(got, want) {
		t.Errorf("notice = %s, want %s…", got, want)
	}
	h.SetState(hostlink.StateBusy, hostlink.Session{ID: "s2", Name: "two"})
	if got, want := <-d.notices, `state {"state":"busy","session":{"id":"s2","name":"two"}}`; got != want {
		t.Errorf("notice = %s, want %s", got, want)
	}
}
