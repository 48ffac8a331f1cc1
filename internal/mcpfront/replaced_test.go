package mcpfront_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// stuckWriter takes nothing until it is let go, and then fails.
type stuckWriter struct {
	http.ResponseWriter
	writing, let chan struct{}
}

func (w *stuckWriter) Write([]byte) (int, error) {
	close(w.writing)
	<-w.let
	return 0, errors.New("the connection is gone")
}

func TestAClientComesBackWhileItsLastAttemptDies(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	s := g.session("2025-11-25")
	event := field(g.post(s, callBody("1", "hold", "")).block(), "id")
	g.await("hold", running)
	open := func(n int) {
		t.Helper()
		for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
			if p := g.front.Peers(); p[0].Running == n {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("never %d open answers", n)
			}
		}
	}

	stuck := &stuckWriter{newRecorder(), make(chan struct{}), make(chan struct{})}
	second := mustRequest(t, "")
	second.Method, second.Body, second.ContentLength = http.MethodGet, http.NoBody, 0
	second.Header = http.Header{"Mcp-Session-Id": {s}, "Last-Event-Id": {event}, "Accept": {"text/event-stream"}}
	peer := bridge.Peer{Token: "t_laptop", Name: "laptop", Role: bridge.RolePeer}
	died := make(chan struct{})
	go func() {
		defer close(died)
		g.front.ServeHTTP(stuck, second.WithContext(bridge.WithPeer(second.Context(), peer)))
	}()
	<-stuck.writing
	open(1) // the first answer has given way

	third := make(chan *reply, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		r, err := g.try(ctx, http.MethodGet, "/mcp", "", "Mcp-Session-Id", s, "Last-Event-ID", event)
		if err != nil {
			t.Errorf("the third attempt: %v", err)
		}
		third <- r
	}()
	open(2)
	close(stuck.let)
	<-died
	r := <-third
	if r == nil {
		return
	}
	r.block() // primed again
	g.finish("hold", okResult)
	if got, want := field(r.block(), "data"), `{"jsonrpc":"2.0","id":1,"result":`+okResult+`}`; got != want {
		t.Errorf("the answer is %s, want %s", got, want)
	}
}
