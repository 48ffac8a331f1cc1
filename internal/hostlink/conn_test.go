package hostlink_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// handler is made of functions.
type handler struct {
	request func(context.Context, *hostlink.Incoming) (json.RawMessage, *hostlink.Error)
	notice  func(string, json.RawMessage)
}

func (h handler) Request(ctx context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
	if h.request == nil {
		return r.Params, nil // an echo
	}
	return h.request(ctx, r)
}

func (h handler) Notice(method string, params json.RawMessage) {
	if h.notice != nil {
		h.notice(method, params)
	}
}

// runConn runs an end of a link for the length of the test.
func runConn(t testing.TB, socket net.Conn, h hostlink.Handler) (*hostlink.Conn, <-chan error) {
	t.Helper()
	c := hostlink.NewConn(socket, h, nil)
	ended := make(chan error, 1)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		ended <- c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c, ended
}

// link runs both ends of one; the second answers with h.
func link(t testing.TB, h hostlink.Handler) (asking, answering *hostlink.Conn) {
	t.Helper()
	a, b := socketPair(t)
	asking, _ = runConn(t, a, handler{})
	answering, _ = runConn(t, b, h)
	return asking, answering
}

// rawEnd is a side of the link that the test plays by hand.
type rawEnd struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func raw(t *testing.T, c net.Conn) *rawEnd {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	return &rawEnd{t: t, Conn: c, in: bufio.NewReader(c)}
}

func (r *rawEnd) send(line string) {
	r.t.Helper()
	if _, err := r.Write([]byte(line + "\n")); err != nil {
		r.t.Fatalf("send %.80s: %v", line, err)
	}
}

func (r *rawEnd) receive() string {
	r.t.Helper()
	line, err := r.in.ReadString('\n')
	if err != nil {
		r.t.Fatalf("receive: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func do(t testing.TB, c *hostlink.Conn, params any) (json.RawMessage, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.Do(ctx, hostlink.MethodRequest, params, nil)
}

func TestPayloadsPassByteForByte(t *testing.T) {
	t.Parallel()
	asking, _ := link(t, handler{})
	for name, want := range map[string]string{
		"big integer":   `{"n":9007199254740993}`,
		"long number":   `{"n":1234567890123456789012345678901234567890.000,"e":1e400}`,
		"spaces":        `{ "a" : [ 1 , 2 ] }`,
		"unicode":       `{"t":"grüße ✓ \u2028\ud800 <&>"}`,
		"key order":     `{"z":1,"a":2,"z":3}`,
		"a scalar":      `"text"`,
		"16 MiB result": `{"t":"` + strings.Repeat("0123456789abcdef", 1<<20) + `"}`,
	} {
		got, err := do(t, asking, json.RawMessage(want))
		if err != nil || string(got) != want {
			t.Errorf("%s: Do = %.80s, %v, want the same bytes", name, got, err)
		}
	}
}

func TestANewlineInAPayloadIsTakenOut(t *testing.T) {
	t.Parallel()
	asking, _ := link(t, handler{})
	got, err := do(t, asking, json.RawMessage("{\n  \"a\": 9007199254740993\n}"))
	if want := `{"a":9007199254740993}`; err != nil || string(got) != want {
		t.Errorf("Do = %s, %v, want %s", got, err, want)
	}
}

func TestFramesBeginWithTheirId(t *testing.T) {
	t.Parallel()
	a, b := socketPair(t)
	c, _ := runConn(t, a, handler{request: func(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
		if string(r.Params) == "{}" {
			return json.RawMessage(`{"ok":true}`), nil
		}
		return nil, &hostlink.Error{Kind: hostlink.KindFault, Message: "no", Executed: bridge.ExecutedNo}
	}})
	peer := raw(t, b)
	var got []string
	peer.send(`{"id":41,"method":"request","params":{}}`)
	got = append(got, peer.receive())
	peer.send(`{"id":42,"method":"request","params":1}`)
	got = append(got, peer.receive())
	if _, err := c.Start(hostlink.MethodPing, nil, nil, func(json.RawMessage, error) {}); err != nil {
		t.Fatal(err)
	}
	if err := c.Event(1, hostlink.MethodCancel, hostlink.Cancel{Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Notify(hostlink.MethodAck, hostlink.Ack{CallID: "c_1"}); err != nil {
		t.Fatal(err)
	}
	got = append(got, peer.receive(), peer.receive(), peer.receive())
	want := []string{
		`{"id":41,"result":{"ok":true}}`,
		`{"id":42,"error":{"kind":"fault","message":"no","executed":"no"}}`,
		`{"id":1,"method":"ping","params":{}}`,
		`{"id":1,"method":"cancel","params":{"reason":"x"}}`,
		`{"method":"ack","params":{"callId":"c_1"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestFramesAtTheLimit(t *testing.T) {
	t.Parallel()
	var size int
	asking, _ := link(t, handler{request: func(context.Context, *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
		return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`), nil
	}})
	const head = len(`{"id":1,"result":}`)
	size = hostlink.MaxFrame - head
	if got, err := do(t, asking, nil); err != nil || len(got) != size {
		t.Fatalf("a frame of 32 MiB: Do = %d bytes, %v, want %d", len(got), err, size)
	}
	size++
	_, err := do(t, asking, nil)
	var e *hostlink.Error
	if !errors.As(err, &e) || e.Kind != hostlink.KindResultTooLarge || e.Executed != bridge.ExecutedYes || !strings.Contains(e.Message, "33554433") {
		t.Fatalf("one byte more: Do = %v, want resultTooLarge with both sizes", err)
	}
	if _, err := do(t, asking, json.RawMessage(`"`+strings.Repeat("x", hostlink.MaxFrame)+`"`)); !errors.As(err, &e) || e.Kind != hostlink.KindTooLarge || e.Executed != bridge.ExecutedNo {
		t.Fatalf("a request over the limit: Do = %v, want tooLarge", err)
	}
	size = 2
	if _, err := do(t, asking, nil); err != nil {
		t.Errorf("the link did not survive: %v", err)
	}
}

func TestAnUnreadableAnswerEndsItsRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		line string
		kind string
	}{
		"too long":    {`{"id":1,"result":"` + strings.Repeat("x", hostlink.MaxFrame) + `"}`, hostlink.KindResultTooLarge},
		"no JSON":     {`{"id":1,"result":{]}`, hostlink.KindFault},
		"not UTF-8":   {"{\"id\":1,\"result\":\"\xff\"}", hostlink.KindFault},
		"error array": {`{"id":1,"error":[`, hostlink.KindFault},
		"error text":  {`{"id":1,"error":"boom"}`, hostlink.KindFault},
		"error kind":  {`{"id":1,"error":{"kind":5}}`, hostlink.KindFault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := socketPair(t)
			c, _ := runConn(t, a, handler{})
			peer := raw(t, b)
			got := make(chan error, 1)
			if _, err := c.Start(hostlink.MethodCall, nil, nil, func(_ json.RawMessage, err error) { got <- err }); err != nil {
				t.Fatal(err)
			}
			peer.receive()
			peer.send(tc.line)
			var e *hostlink.Error
			if err := <-got; !errors.As(err, &e) || e.Kind != tc.kind {
				t.Errorf("done got %v, want the kind %s", err, tc.kind)
			}
			if notice := peer.receive(); !strings.HasPrefix(notice, `{"method":"fault"`) {
				t.Errorf("the peer got %s, want a fault", notice)
			}
		})
	}
}

func TestSixteenUnreadableLinesEndTheLink(t *testing.T) {
	t.Parallel()
	a, b := socketPair(t)
	_, ended := runConn(t, a, handler{})
	peer := raw(t, b)
	for range 15 {
		peer.send("what?")
		if got := peer.receive(); !strings.HasPrefix(got, `{"method":"fault"`) {
			t.Fatalf("got %s, want a fault", got)
		}
	}
	peer.send(`{"id":1,"method":"ping"}`)
	if got := peer.receive(); got != `{"id":1,"result":{}}` {
		t.Fatalf("ping after 15 faults: %s", got)
	}
	peer.send("what?")
	if err := <-ended; !errors.Is(err, hostlink.ErrFaults) {
		t.Errorf("Run = %v, want ErrFaults", err)
	}
}

func TestASideThatAsksAndReadsNothingIsCutOff(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"ping", "dance"} {
		a, b := net.Pipe() // it holds nothing: no answer can leave
		_, ended := runConn(t, a, handler{})
		peer := raw(t, b)
		for id := range 1024 + 16 {
			peer.send(fmt.Sprintf(`{"id":%d,"method":%q}`, id+1, method))
		}
		if err := <-ended; !errors.Is(err, hostlink.ErrFaults) {
			t.Errorf("%s: Run = %v, want ErrFaults", method, err)
		}
	}
}

func TestManyRequestsAtOnceGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	asking, _ := link(t, handler{request: func(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
		if string(r.Params) == `"slow"` {
			<-slow
		}
		return r.Params, nil
	}})
	var late sync.WaitGroup
	late.Go(func() {
		if got, err := do(t, asking, json.RawMessage(`"slow"`)); err != nil || string(got) != `"slow"` {
			t.Errorf("the slow one: %s, %v", got, err)
		}
	})
	var quick sync.WaitGroup
	for i := range 200 {
		quick.Go(func() {
			want := fmt.Sprintf(`{"i":%d,"t":"%s"}`, i, strings.Repeat("z", i*500))
			if got, err := do(t, asking, json.RawMessage(want)); err != nil || string(got) != want {
				t.Errorf("request %d: %.80s, %v", i, got, err)
			}
		})
	}
	quick.Wait()
	close(slow)
	late.Wait()
}

func TestACancelReachesTheRequest(t *testing.T) {
	t.Parallel()
	started := make(chan int64)
	asking, _ := link(t, handler{request: func(ctx context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
		started <- r.ID
		<-ctx.Done()
		cause := context.Cause(ctx)
		if !errors.Is(cause, hostlink.ErrCancelled) || errors.Is(cause, hostlink.ErrLinkLost) {
			t.Errorf("Cause = %v, want ErrCancelled", cause)
		}
		return nil, &hostlink.Error{Kind: hostlink.KindCancelled, Message: cause.Error(), Executed: bridge.ExecutedUnknown}
	}})
	got := make(chan error, 1)
	id, err := asking.Start(hostlink.MethodCall, nil, nil, func(_ json.RawMessage, err error) { got <- err })
	if err != nil {
		t.Fatal(err)
	}
	if theirs := <-started; theirs != id {
		t.Errorf("Incoming.ID = %d, want %d", theirs, id)
	}
	for range 3 {
		if err := asking.Event(id, hostlink.MethodCancel, hostlink.Cancel{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
	}
	var e *hostlink.Error
	if err := <-got; !errors.As(err, &e) || e.Kind != hostlink.KindCancelled || !strings.Contains(e.Message, "enough") {
		t.Errorf("done got %v, want cancelled with its reason", err)
	}
}

func TestACancelThatRacesTheAnswerChangesNothing(t *testing.T) {
	t.Parallel()
	asking, _ := link(t, handler{})
	for i := range 500 {
		got := make(chan error, 2)
		id, err := asking.Start(hostlink.MethodCall, i, nil, func(_ json.RawMessage, err error) { got <- err })
		if err != nil {
			t.Fatal(err)
		}
		if err := asking.Event(id, hostlink.MethodCancel, hostlink.Cancel{}); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
}

func TestTheEndOfTheLinkEndsEveryRequest(t *testing.T) {
	t.Parallel()
	a, b := socketPair(t)
	asking, _ := runConn(t, a, handler{})
	started, causes := make(chan struct{}), make(chan error, 1)
	answering, ended := runConn(t, b, handler{request: func(ctx context.Context, _ *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, nil
	}})
	got := make(chan error, 1)
	if _, err := asking.Start(hostlink.MethodCall, nil, nil, func(_ json.RawMessage, err error) { got <- err }); err != nil {
		t.Fatal(err)
	}
	<-started
	asking.Close()
	if err := <-got; !errors.Is(err, hostlink.ErrLinkLost) {
		t.Errorf("the asking side got %v, want ErrLinkLost", err)
	}
	if err := <-causes; !errors.Is(err, hostlink.ErrLinkLost) {
		t.Errorf("the working side got %v, want ErrLinkLost", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v after a clean end, want nil", err)
	}
	for name, send := range map[string]func() error{
		"Start": func() error { _, err := answering.Start("ping", nil, nil, nil); return err },
		"Adopt": func() error { return answering.Adopt(3, nil, nil) },
		"Event": func() error { return answering.Event(3, "cancel", nil) },
		"Do":    func() error { _, err := do(t, answering, nil); return err },
	} {
		if err := send(); !errors.Is(err, hostlink.ErrLinkLost) {
			t.Errorf("%s after the end = %v, want ErrLinkLost", name, err)
		}
	}
}

func TestEventsComeInOrderBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	asking, _ := link(t, handler{request: func(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
		_ = r.Event(hostlink.MethodAccepted, nil)
		for i := range 50 {
			_ = r.Event(hostlink.MethodProgress, hostlink.Progress{Text: fmt.Sprint(i)})
		}
		return nil, nil
	}})
	var got, want []string
	done := make(chan struct{})
	_, err := asking.Start(hostlink.MethodCall, nil,
		func(method string, params json.RawMessage) { got = append(got, method+" "+string(params)) },
		func(result json.RawMessage, err error) {
			got = append(got, fmt.Sprint(string(result), err))
			close(done)
		})
	if err != nil {
		t.Fatal(err)
	}
	<-done
	want = append(want, "accepted {}")
	for i := range 50 {
		want = append(want, fmt.Sprintf(`progress {"text":"%d"}`, i))
	}
	want = append(want, "{}<nil>")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAReplyLeavesBeforeItsHandlerReturns(t *testing.T) {
	t.Parallel()
	a, b := socketPair(t)
	var c *hostlink.Conn
	ready := make(chan struct{})
	c, _ = runConn(t, a, handler{request: func(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
		<-ready
		if err := r.Reply(json.RawMessage(`"welcome"`)); err != nil {
			t.Error(err)
		}
		if err := c.Notify(hostlink.MethodYou, nil); err != nil {
			t.Error(err)
		}
		return json.RawMessage(`"ignored"`), nil
	}})
	close(ready)
	peer := raw(t, b)
	peer.send(`{"id":1,"method":"hello","params":{}}`)
	got := []string{peer.receive(), peer.receive()}
	peer.send(`{"id":2,"method":"ping"}`)
	got = append(got, peer.receive())
	want := []string{`{"id":1,"result":"welcome"}`, `{"method":"you","params":{}}`, `{"id":2,"result":{}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestAnAdoptedRequestIsAnsweredUnderItsId(t *testing.T) {
	t.Parallel()
	a, b := socketPair(t)
	c, _ := runConn(t, a, handler{})
	peer := raw(t, b)
	got := make(chan string, 2)
	err := c.Adopt(7, func(method string, _ json.RawMessage) { got <- method }, func(r json.RawMessage, err error) { got <- fmt.Sprint(string(r), err) })
	if err != nil {
		t.Fatal(err)
	}
	peer.send(`{"id":7,"method":"accepted","params":{}}`)
	peer.send(`{"id":7,"result":{"ok":1}}`)
	if diff := cmp.Diff([]string{"accepted", `{"ok":1}<nil>`}, []string{<-got, <-got}); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	if id, err := c.Start(hostlink.MethodPing, nil, nil, func(json.RawMessage, error) {}); id != 8 || err != nil {
		t.Errorf("Start = %d, %v, want an id above the adopted one", id, err)
	}
}

func TestASideThatReadsNothingLosesTheLink(t *testing.T) {
	t.Parallel()
	a, b := socketPair(t)
	c := hostlink.NewConn(a, handler{}, nil)
	c.SetWriteLimit(50 * time.Millisecond)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	defer func() { _ = b.Close() }()
	err := c.Notify(hostlink.MethodTools, json.RawMessage(`"`+strings.Repeat("x", 8<<20)+`"`))
	if !errors.Is(err, hostlink.ErrLinkLost) {
		t.Errorf("Notify = %v, want ErrLinkLost", err)
	}
	if err := <-ended; !errors.Is(err, hostlink.ErrLinkLost) {
		t.Errorf("Run = %v, want ErrLinkLost", err)
	}
}

func TestTwoSidesThatOnlySendDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	big := json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	a, b := socketPair(t)
	one, _ := runConn(t, a, handler{})
	two, _ := runConn(t, b, handler{})
	var all sync.WaitGroup
	for _, c := range []*hostlink.Conn{one, two} {
		for range 4 {
			all.Go(func() {
				if got, err := do(t, c, big); err != nil || !bytes.Equal(got, big) {
					t.Errorf("Do = %d bytes, %v", len(got), err)
				}
			})
		}
	}
	all.Wait()
}

func TestPingsKeepALinkAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		one, _ := runConn(t, a, handler{})
		two, _ := runConn(t, b, handler{})
		<-time.After(time.Minute)
		for _, c := range []*hostlink.Conn{one, two} {
			if silent := time.Since(c.LastHeard()); silent > hostlink.PingEvery {
				t.Errorf("nothing heard for %v", silent)
			}
		}
	})
}

func TestAFrozenSideIsNotFloodedWithPings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c, _ := runConn(t, a, handler{})
		lines := make(chan string, 100)
		go func() {
			defer close(lines)
			for in := bufio.NewScanner(b); in.Scan(); {
				lines <- in.Text()
			}
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		if len(lines) != 1 {
			t.Errorf("%d frames in a minute of silence, want one ping", len(lines))
		}
		if silent := time.Since(c.LastHeard()); silent < time.Minute {
			t.Errorf("LastHeard says %v", silent)
		}
		_, _ = b.Write([]byte(`{"id":1,"result":{}}` + "\n")) // it thaws
		<-time.After(hostlink.PingEvery)
		synctest.Wait()
		if len(lines) != 2 {
			t.Errorf("%d frames after the thaw, want another ping", len(lines))
		}
		_ = b.Close()
	})
}
