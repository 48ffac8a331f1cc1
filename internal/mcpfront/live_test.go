package mcpfront

import (
	"context"
	"fmt"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

func TestTombstonesAreBounded(t *testing.T) {
	t.Parallel()
	l := newLive()
	for i := range maxTombstones + 10 {
		l.bury(fmt.Sprint(i))
		l.bury(fmt.Sprint(i))
	}
	if len(l.tombs) != maxTombstones || len(l.order) != maxTombstones {
		t.Errorf("%d tombstones in a ring of %d", len(l.tombs), len(l.order))
	}
	if l.buried("9") || !l.buried("10") || !l.buried(fmt.Sprint(maxTombstones+9)) {
		t.Error("not the oldest were forgotten")
	}
}

func TestAnswersOfATokenAreBounded(t *testing.T) {
	t.Parallel()
	l := newLive()
	open := func(token string) *exchange {
		x := &exchange{peer: bridge.Peer{Token: token}, call: bridge.Call{ID: bridge.NewCallID()}}
		x.ctx, x.cancel = context.WithCancelCause(t.Context())
		return x
	}
	var last *exchange
	for i := range maxAnswers {
		if last = open("a"); !l.enter(last) {
			t.Fatalf("answer %d is refused", i)
		}
	}
	if l.enter(open("a")) {
		t.Error("one answer too many")
	}
	if !l.enter(open("b")) {
		t.Error("another token is held up")
	}
	l.leave(last)
	if !l.enter(open("a")) {
		t.Error("no room after one has left")
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 31, 32, 33, 100} {
		s := ""
		for range n {
			s += "é"
		}
		if got := clip(s); len(got) > maxClientText || len(s) <= maxClientText && got != s || len(got)%2 != 0 {
			t.Errorf("clip of %d bytes has %d", len(s), len(got))
		}
	}
}
