package hub

import (
	"context"
	"net"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

type Hub struct{}

func New(cfg Config) (*Hub, error)                          { return &Hub{}, nil }
func (h *Hub) Run(ctx context.Context) error                { return nil }
func (h *Hub) Attach(ctx context.Context, c net.Conn) error { return nil }
func (h *Hub) Apply(s Settings)                             {}
func (h *Hub) Call(ctx context.Context, c bridge.Call, w bridge.Watcher) (bridge.Outcome, error) {
	return bridge.Outcome{}, nil
}
func (h *Hub) Join(ctx context.Context, id bridge.CallID, token string, w bridge.Watcher) (bridge.Outcome, error) {
	return bridge.Outcome{}, nil
}
func (h *Hub) Delivered(id bridge.CallID)                               {}
func (h *Hub) Cancel(match func(bridge.Call) bool, why bridge.Kind) int { return 0 }
func (h *Hub) View(host string) (bridge.View, error)                    { return bridge.View{}, nil }
func (h *Hub) Hosts() []HostStatus                                      { return nil }
func (h *Hub) Calls() []CallStatus                                      { return nil }
func (h *Hub) Main() MainStatus                                         { return MainStatus{} }
func (h *Hub) Counts() Counts                                           { return Counts{} }
func (h *Hub) Pause(d time.Duration) time.Time                          { return time.Time{} } // zero: until resumed
func (h *Hub) Resume()                                                  {}
func (h *Hub) Paused() (bool, time.Time)                                { return false, time.Time{} }
func (h *Hub) Use(name string) error                                    { return nil }
func (h *Hub) UseAuto()                                                 {}
func (h *Hub) Idle() bool                                               { return true }
func (h *Hub) Problems() []string                                       { return nil }
func (h *Hub) Exercise(ctx context.Context) error                       { return nil }
func (h *Hub) Stop(ctx context.Context)                                 {}
func (h *Hub) SetPeers(names []string)                                  {}
