package stdiohost

import (
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// A call can find the session that it was given over already: the program has
// ended, and the host has not said so yet.
func TestACallOfAnEndedSessionDidNotRun(t *testing.T) {
	t.Parallel()
	s := newSession(nil, nil, nil)
	s.end()
	_, err := s.callTool(t.Context(), "tool", nil, nil)
	if err == nil || err.Kind != hostlink.KindNotReady || err.Executed != bridge.ExecutedNo {
		t.Errorf("call = %v, want notReady of something that did not run", err)
	}
}
