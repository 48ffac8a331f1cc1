package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// Ledger is where calls are written down; internal/audit has it. Its errors
// are a bridge.LedgerFault.
type Ledger interface {
	// Start is durable when it returns nil and sync is set.
	Start(s bridge.CallStart, sync bool) error
	// End is durable when it returns nil, if the start was.
	End(e bridge.CallEnd) error
	// Open lists the starts without an end that an earlier process left.
	Open() []bridge.CallStart
	// Ran lists the starts of calls that ran and ended since a time.
	Ran(since time.Time) []bridge.CallStart
}

// Config is what a Hub is made of.
type Config struct {
	Settings
	Ledger     Ledger
	StateDir   string          // for hosts.json, catalogue.json and paused.json
	Address    func() string   // of main, for the notice that a host shows
	Version    string          // of the daemon
	Insecure   func() bool     // listening beyond loopback
	TokenNames func() []string // for completion in a host
	Seen       func() []string // the names of those used lately, for the notice
	// Requests answers the verbs that a host sends; nil refuses them.
	Requests func(ctx context.Context, host string, r hostlink.Request) (json.RawMessage, *hostlink.Error)
	Now      func() time.Time // nil: time.Now
	Log      *slog.Logger     // nil: silent
	// OwnTool reports that a tool is one of this bridge's own, come back
	// through the host's MCP client. The hub's own rule (loop.go) applies
	// besides; nil adds nothing to it.
	OwnTool func(bridge.Tool) bool
}

// ErrDetached is what Call and Join return when the caller stopped watching a
// call that goes on.
var ErrDetached = errors.New("the call goes on unwatched")

// Hub is the centre of the bridge.
type Hub struct {
	cfg  Config
	log  *slog.Logger
	kick chan struct{}      // wakes Run
	echo chan chan struct{} // Exercise's question to Run
	work sync.WaitGroup     // goroutines that end by themselves

	saving sync.Mutex // one writer of the state files at a time; taken before mu

	mu       sync.Mutex
	set      Settings
	hosts    map[string]*host // attached, or lost and expected back
	queues   map[string]*queue
	calls    map[bridge.CallID]*call            // open, and ended ones that may be asked for again
	past     map[bridge.CallID]bridge.CallStart // ended by the previous process, whose answers hosts may keep; empty after bootBy
	kept     int64                              // bytes of results in calls
	names    names
	cats     map[string]*offer
	views    map[string]*view
	mainView *view
	peers    []string
	pause    pause
	due      time.Time // when Run wakes next; zero: not before it is kicked
	dirty    dirty
	problems map[string]string // by what they are about
	refusing bool              // nothing begins any more
	stopping bool              // and the links are cut
	bootBy   time.Time         // hosts of the previous process are expected until then
}

// New makes a hub and reads what an earlier one left in StateDir. Files that
// cannot be used are set aside and become a problem, not an error.
func New(cfg Config) (*Hub, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("hub: no ledger")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		cfg: cfg, log: cfg.Log, set: cfg.Settings.withDefaults(),
		kick: make(chan struct{}, 1), echo: make(chan chan struct{}),
		hosts: map[string]*host{}, queues: map[string]*queue{}, calls: map[bridge.CallID]*call{},
		past: map[bridge.CallID]bridge.CallStart{},
		cats: map[string]*offer{}, views: map[string]*view{}, mainView: newView(""),
		problems: map[string]string{},
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		h.problems["state"] = fmt.Sprintf("the state directory cannot be made: %v", plain(err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loadNames()
	h.loadOffers()
	h.loadPause()
	h.bootBy = cfg.Now().Add(h.set.ResumeGrace)
	h.adoptLedger(cfg.Ledger.Open())
	for _, s := range cfg.Ledger.Ran(cfg.Now().Add(-h.set.ResumeKeep)) {
		h.past[s.ID] = s
	}
	h.wakeAt(h.bootBy)
	return h, nil
}

// Apply takes new settings over. Calls that wait keep the deadline they have.
func (h *Hub) Apply(s Settings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set = s.withDefaults()
	for name := range h.cats {
		h.refreshView(name)
	}
	for _, ho := range h.hosts {
		h.dispatch(ho)
	}
}

// Refuse ends what has not begun ("Stopping") and lets nothing begin from here
// on; what runs goes on. It is the first half of Stop.
func (h *Hub) Refuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusing = true
	for _, c := range h.calls {
		if !c.state.Final() && !c.sent {
			h.end(c, refused(bridge.Stopping, bridge.RetrySafe))
		}
		c.nudge()
	}
}

// Stop ends what has not begun ("Stopping"), cuts the links and returns when
// everything of the hub is at rest and saved, or when ctx ends. Calls that run
// stay open in the ledger for the next process; whoever still follows one gets
// ErrDetached.
func (h *Hub) Stop(ctx context.Context) {
	h.mu.Lock()
	h.refusing, h.stopping = true, true
	var ending []*call
	for _, c := range h.calls {
		if !c.state.Final() && !c.sent {
			h.end(c, refused(bridge.Stopping, bridge.RetrySafe))
		}
		if c.state.Final() && !c.settled {
			ending = append(ending, c)
		}
		c.nudge()
	}
	for _, ho := range h.hosts {
		if ho.link != nil {
			ho.link.conn.Close()
		}
	}
	h.mu.Unlock()
	h.wakeRun()
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		for _, c := range ending { // their followers write the ends
			select {
			case <-c.over:
			case <-ctx.Done():
			}
		}
		h.work.Wait()
	}()
	select {
	case <-rest:
	case <-ctx.Done():
	}
	h.save()
}

// Idle reports that nothing is attached, expected back, open or kept for a
// caller who may resume.
func (h *Hub) Idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.hosts) == 0 && len(h.calls) == 0
}

// Problems says what is wrong with the hub's own files, for their owner.
func (h *Hub) Problems() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return sortedValues(h.problems)
}

func (h *Hub) now() time.Time { return h.cfg.Now() }
