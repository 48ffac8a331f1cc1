package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

var errScope = fmt.Errorf("%w: wrong scope", ErrRefused)

// reasons are the keys of the log's summary.
var reasons = []struct {
	err error
	key string
}{
	{errNoToken, "no_token"}, {errHeader, "malformed_header"}, {errUnknown, "unknown_token"}, {errExpired, "expired_token"},
	{errRetired, "retired_token"}, {errScope, "wrong_scope"}, {errNoTokens, "broken_tokens_file"},
}

// reportEvery is the most that refused requests may write to the log: anybody
// who can reach the port can cause them.
const reportEvery = time.Minute

// refusals counts requests that were turned away.
type refusals struct {
	now func() time.Time
	log *slog.Logger // nil: nothing is logged

	mu       sync.Mutex     // guards the rest
	hours    [24]hourCount  // ring by hour
	pending  map[string]int // since the last report, by reason
	reported time.Time      // last report
}

type hourCount struct {
	hour  int64
	count int
}

func newRefusals(now func() time.Time) *refusals {
	return &refusals{now: now, pending: map[string]int{}}
}

func (f *refusals) count(err error) {
	f.mu.Lock()
	hour := f.now().Unix() / 3600
	slot := &f.hours[uint64(hour)%uint64(len(f.hours))]
	if slot.hour != hour {
		*slot = hourCount{hour: hour}
	}
	slot.count++
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			f.pending[r.key]++
		}
	}
	f.mu.Unlock()
	f.report()
}

// report writes one line about what was refused since the last one, at most
// once in reportEvery.
func (f *refusals) report() {
	f.mu.Lock()
	now := f.now()
	if since := now.Sub(f.reported); len(f.pending) == 0 || since >= 0 && since < reportEvery {
		f.mu.Unlock()
		return
	}
	pending := f.pending
	f.pending, f.reported = map[string]int{}, now
	f.mu.Unlock()
	if f.log == nil {
		return
	}
	attrs := []any{}
	for _, r := range reasons {
		if n := pending[r.key]; n > 0 {
			attrs = append(attrs, r.key, n)
		}
	}
	f.log.Warn("requests refused", attrs...)
}

// Refused24h returns how many requests were refused in the last 24 hours.
func (s *Store) Refused24h() int {
	f := s.refused
	f.mu.Lock()
	defer f.mu.Unlock()
	hour, total := f.now().Unix()/3600, 0
	for _, h := range f.hours {
		if h.hour <= hour && hour-h.hour < int64(len(f.hours)) {
			total += h.count
		}
	}
	return total
}
