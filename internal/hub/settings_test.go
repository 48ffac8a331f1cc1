package hub_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/hub"
)

func TestNoneIsADuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *hub.Config) { c.QueueWait, c.ResumeGrace, c.ResumeKeep = 0, 0, 0 })
		began := time.Now()
		if o := r.call(request("read")); o.State != bridge.Expired {
			t.Errorf("without a host: %s, want expired", o.State)
		}
		h, err := r.rawHost(hostlink.Hello{Kind: "omp", Instance: "i", CWD: "/home/u/app"})
		must(t, err)
		r.await("the tools", func() bool { return r.hub.Hosts()[0].Tools > 0 })
		c := request("write")
		h.answers <- func() (json.RawMessage, *hostlink.Error) { return text("ok"), nil }
		r.call(c)
		r.await("the result forgotten", func() bool {
			o := <-r.join(c.ID, peer.Token, &watch{})
			return errors.Is(o.err, bridge.NotFound)
		})
		got := r.begin(request("write"), &watch{})
		<-h.calls
		in := <-h.calls
		must(t, in.Event(hostlink.MethodAccepted, nil))
		h.cut()
		if o := <-got; o.State != bridge.Unknown {
			t.Errorf("its host lost: %s, want unknown", o.State)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
