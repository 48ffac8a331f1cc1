package packaging_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/probe"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// load asks at both doors without end, with a connection for each request.
type load struct {
	answers atomic.Int64
	lost    atomic.Int64
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// startLoad begins with as many clients at each door; pause lies between two
// requests of one.
func (p *person) startLoad(clients int, pause time.Duration) *load {
	ctx, stop := context.WithCancel(p.t.Context())
	l := &load{stop: stop}
	secret, _, _ := strings.Cut(p.ctl("token", "create", "load", "-q"), "\n")
	for door, ask := range map[string]func() error{
		"http": func() error {
			client := probe.New("http://"+p.addr()+"/mcp", secret)
			defer client.Close()
			_, err := client.Discover(p.t.Context())
			return err
		},
		"control": func() error {
			_, err := p.control.Paths(p.t.Context())
			return err
		},
	} {
		for range clients {
			l.done.Go(func() {
				for ctx.Err() == nil {
					if err := ask(); err != nil {
						l.lost.Add(1)
						p.t.Errorf("a request was lost at the door %s: %v", door, err)
						return
					}
					l.answers.Add(1)
					if pause > 0 {
						select {
						case <-time.After(pause):
						case <-ctx.Done():
						}
					}
				}
			})
		}
	}
	return l
}

// moreTime is how long it is worth to wait for many answers: on a busy machine
// fewer must do.
const moreTime = 3 * time.Second

// more waits for as many answers more, or for those that come in moreTime.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	before, start := l.answers.Load(), time.Now()
	bridgetest.Eventually(t, "more answers", func() bool {
		got := l.answers.Load() - before
		return got >= n || got > 0 && time.Since(start) > moreTime || l.lost.Load() > 0
	})
}

func (l *load) end() int64 {
	l.stop()
	l.done.Wait()
	return l.answers.Load()
}

func restartsUnderLoad(t *testing.T, p *person) {
	p.setup()
	const restarts, between = 20, 1000
	program := filepath.Join(p.bin, "a2a-bridge")
	l := p.startLoad(4, 0)
	seen := map[int]bool{p.pid(): true}
	for i := range restarts {
		l.more(t, between)
		if i%2 == 0 { // as packages do it: a new file in the place of the one that runs
			replace(t, program)
		}
		p.systemctl("restart", packaging.Service)
		seen[p.pid()] = true
	}
	l.more(t, between)
	t.Logf("%d requests over %d restarts", l.end(), restarts)
	if len(seen) != restarts+1 {
		t.Errorf("there were %d daemons, want %d", len(seen), restarts+1)
	}
	p.wantActive("active", append([]string{packaging.Service}, sockets...)...)
}

// replace puts a copy of a program in its place.
func replace(t *testing.T, program string) {
	t.Helper()
	from, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(program+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
}

// The daemon leaves whenever it finds nothing to do twice in a row, which
// between short requests it does all the time: requests meet every moment of
// an exit.
func idleExitsUnderLoad(t *testing.T, p *person) {
	p.write(".config/a2a-bridge/config.yaml", "idle_exit: 1s\n")
	p.setup()
	const exits = 6
	l := p.startLoad(3, 15*time.Millisecond)
	seen := map[int]bool{}
	deadline := time.Now().Add(scenarioTime / 2)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(seen) <= exits {
		if time.Now().After(deadline) {
			t.Fatalf("only %d daemons in %s", len(seen), scenarioTime/2)
		}
		if pid := p.pid(); pid != 0 {
			seen[pid] = true
		}
		<-tick.C
	}
	t.Logf("%d requests over %d idle exits", l.end(), len(seen)-1)

	bridgetest.Eventually(t, "the daemon sleeps", func() bool { return p.show(packaging.Service, "ActiveState") == "inactive" })
	if got := p.show(packaging.Service, "Result"); got != "success" {
		t.Errorf("its end was %s", got)
	}
	for _, s := range sockets {
		if got := p.show(s, "SubState"); got != "listening" {
			t.Errorf("%s is %s", s, got)
		}
	}
	p.wantHealth(http.StatusOK)
}
