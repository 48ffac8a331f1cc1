package bench_test

import (
	"fmt"
	"testing"
)

// BenchmarkRequest has a pair for each row of the table: the baseline and the bridge.
func BenchmarkRequest(b *testing.B) {
	p := startParts(b)
	for _, r := range p.rows() {
		for _, side := range []struct {
			name    string
			prepare func(int) request
		}{{"baseline", r.baseline}, {"bridge", r.bridge}} {
			b.Run(fmt.Sprintf("%s/%d/%s", r.name, r.clients, side.name), func(b *testing.B) {
				work := make(chan struct{})
				failed := make(chan error, r.clients)
				for c := range r.clients {
					request := side.prepare(c + 1)
					go func() {
						var err error
						for range work {
							if err == nil {
								err = request.do(b.Context())
							}
						}
						failed <- err
					}()
				}
				for b.Loop() {
					work <- struct{}{}
				}
				close(work)
				for range r.clients {
					if err := <-failed; err != nil {
						b.Error(err)
					}
				}
			})
		}
	}
}
