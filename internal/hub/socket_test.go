package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/audit"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

// onSocket runs a hub with one host on a real unix socket.
func onSocket(t testing.TB, run runFunc, tools ...bridge.Tool) *hub.Hub {
	t.Helper()
	dir, err := os.MkdirTemp("", "hub") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "h"))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := audit.Open(audit.Config{Dir: dir, MaxBytes: 1 << 30, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(hub.Config{Settings: hub.Defaults(), Ledger: ledger, StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{}, 3)
	go func() { _ = h.Run(ctx); ended <- struct{}{} }()
	go func() {
		defer func() { ended <- struct{}{} }()
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = h.Attach(ctx, conn)
		}
	}()
	host := hostlink.NewHost(hostlink.HostConfig{
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", ln.Addr().String())
		},
		Hello: hostlink.Hello{Kind: "omp", CWD: "/app", PID: os.Getpid()},
		Run:   run,
	})
	host.SetTools(tools)
	go func() { _ = host.Run(ctx); ended <- struct{}{} }()
	t.Cleanup(func() {
		stop, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		_ = ln.Close()
		h.Stop(stop)
		end()
		for range 3 {
			<-ended
		}
		_ = ledger.Close()
		_ = os.RemoveAll(dir)
	})
	deadline := time.Now().Add(10 * time.Second)
	for v, _ := h.View(""); len(v.Catalogue.Tools) != len(tools); v, _ = h.View("") {
		if time.Now().After(deadline) {
			t.Fatal("the host does not attach")
		}
		<-time.After(time.Millisecond)
	}
	return h
}

type quiet struct{}

func (quiet) HandOver() error    { return nil }
func (quiet) Event(bridge.Event) {}

func TestBytesPassUnchangedOverARealSocket(t *testing.T) {
	t.Parallel()
	result := []byte(`{"content":[{"type":"text","text":"`)
	result = append(result, bytes.Repeat([]byte("é\\u2028 \\\" 9007199254740993 <&> "), 350_000)...)
	result = append(result, `"}],"n":9007199254740993, "f":1.0e+2}`...)
	var got json.RawMessage
	h := onSocket(t, func(_ context.Context, c hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		got = c.Args
		return result, nil
	}, tool("read"))
	args := `{"n":9007199254740993,"s":"<é\u2028>","f":1.0e+2}`
	c := request("read", func(c *bridge.Call) { c.Args = json.RawMessage(args) })
	o, err := h.Call(context.Background(), c, quiet{})
	must(t, err)
	if o.State != bridge.Done || !bytes.Equal(o.Result, result) {
		t.Errorf("%s with %d bytes, want the %d sent", o.State, len(o.Result), len(result))
	}
	if string(got) != args {
		t.Errorf("arguments %s, want %s", got, args)
	}
}

func TestStopRefusesWhatWaitsAndLeavesWhatRuns(t *testing.T) {
	t.Parallel()
	hold := newHeld()
	h := onSocket(t, hold.run, tool("write"))
	running := make(chan error, 1)
	go func() {
		_, err := h.Call(context.Background(), request("write"), quiet{})
		running <- err
	}()
	<-hold.begun
	waiting := make(chan bridge.Outcome, 1)
	set := hub.Defaults()
	set.Concurrency = 1
	h.Apply(set)
	go func() {
		o, _ := h.Call(context.Background(), request("write"), quiet{})
		waiting <- o
	}()
	for h.Counts().Queued == 0 {
		<-time.After(time.Millisecond)
	}
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	h.Stop(ctx)
	if ctx.Err() != nil {
		t.Error("Stop took until its limit")
	}
	if o := <-waiting; o.Kind != bridge.Stopping || o.Executed != bridge.ExecutedNo {
		t.Errorf("the call that waited: %s %s", o.State, o.Kind)
	}
	if err := <-running; !errors.Is(err, hub.ErrDetached) {
		t.Errorf("the call that ran: %v, want ErrDetached", err)
	}
	if o, err := h.Call(context.Background(), request("write"), quiet{}); err != nil || o.Kind != bridge.Stopping {
		t.Errorf("a call after Stop: %s, %v", o.Kind, err)
	}
	close(hold.let)
}

// BenchmarkCall is a read through the hub, a socket and the ledger;
// BenchmarkLink is the same tool without the hub's part.
func BenchmarkCall(b *testing.B) {
	for name, tl := range map[string]string{"read": "read", "write": "write"} {
		b.Run(name, func(b *testing.B) {
			h := onSocket(b, echo, tool(tl))
			b.ReportAllocs()
			for b.Loop() {
				c := request(tl)
				o, err := h.Call(context.Background(), c, quiet{})
				if err != nil || o.State != bridge.Done {
					b.Fatal(o.State, err)
				}
				h.Delivered(c.ID)
			}
		})
		b.Run(name+" in parallel", func(b *testing.B) {
			h := onSocket(b, echo, tool(tl))
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c := request(tl)
					if o, err := h.Call(context.Background(), c, quiet{}); err != nil || o.State != bridge.Done {
						b.Error(o.State, err)
						return
					}
					h.Delivered(c.ID)
				}
			})
		})
	}
}

func BenchmarkLink(b *testing.B) {
	ours, theirs := socketPair(b)
	daemon := hostlink.NewConn(ours, nil, nil)
	host := hostlink.NewConn(theirs, answerer{}, nil)
	ended := make(chan struct{}, 2)
	for _, c := range []*hostlink.Conn{daemon, host} {
		go func() { _ = c.Run(context.Background()); ended <- struct{}{} }()
	}
	b.ReportAllocs()
	for b.Loop() {
		c := request("read")
		p := hostlink.CallParams{CallID: c.ID, Ref: hostlink.EncodeRef(c.Ref), Tool: c.Tool, Args: c.Args}
		if _, err := daemon.Do(context.Background(), hostlink.MethodCall, p, nil); err != nil {
			b.Fatal(err)
		}
	}
	daemon.Close()
	host.Close()
	<-ended
	<-ended
}

type answerer struct{}

func (answerer) Request(_ context.Context, r *hostlink.Incoming) (json.RawMessage, *hostlink.Error) {
	_ = r.Event(hostlink.MethodAccepted, nil)
	return text("ok"), nil
}
func (answerer) Notice(string, json.RawMessage) {}

func socketPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pair")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}
