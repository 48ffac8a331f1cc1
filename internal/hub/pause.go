package hub

import (
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// pause is the owner's word that nothing may start. It is what paused.json
// holds.
type pause struct {
	Paused bool      `json:"paused"`
	Until  time.Time `json:"until"` // zero: until resumed
}

// Pause stops calls from starting, for a while or (zero) until Resume, and
// returns until when. Calls that wait end; calls that run go on. It is on the
// disk when Pause returns, unless Problems says otherwise.
func (h *Hub) Pause(d time.Duration) time.Time {
	h.mu.Lock()
	h.pause = pause{Paused: true}
	if d > 0 {
		h.pause.Until = h.now().Add(d)
		h.wakeAt(h.pause.Until)
	}
	until := h.pause.Until
	for _, c := range h.calls {
		if c.state == bridge.Queued {
			h.end(c, refused(bridge.Paused, bridge.RetrySafe))
		}
	}
	h.dirty.pause = true
	h.tellAll()
	h.mu.Unlock()
	h.save()
	return until
}

// Resume ends a pause.
func (h *Hub) Resume() {
	h.mu.Lock()
	h.endPause()
	h.mu.Unlock()
	h.save()
}

func (h *Hub) endPause() {
	h.pause = pause{}
	h.dirty.pause = true
	h.tellAll()
}

// Paused reports whether nothing may start, and until when (zero: until
// Resume).
func (h *Hub) Paused() (bool, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pausedUntil()
}

func (h *Hub) pausedUntil() (bool, time.Time) {
	if !h.isPaused() {
		return false, time.Time{}
	}
	return true, h.pause.Until
}

func (h *Hub) isPaused() bool {
	return h.pause.Paused && (h.pause.Until.IsZero() || h.now().Before(h.pause.Until))
}
