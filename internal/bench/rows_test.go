package bench_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// row is one comparison: the same request to both sides.
type row struct {
	name     string
	clients  int
	limit    float64 // the ratio of medians that we want; 0: none is named
	baseline func(id int) request
	bridge   func(id int) request
}

// rows are the comparisons of the table and of the benchmarks.
func (p parts) rows() []row {
	read := func(s *target) func(int) request {
		return func(id int) request { return s.call(id, "read", map[string]any{"path": p.file}, ompEnd) }
	}
	ompEcho := func(s *target) func(int) request {
		return func(id int) request { return s.call(id, "bench_echo", map[string]any{"text": "hello"}, `"hello"`) }
	}
	scripted := func(s *target, tool, want string) func(int) request {
		return func(id int) request { return s.call(id, tool, map[string]any{}, want) }
	}
	list := func(s *target) func(int) request {
		return func(id int) request { return s.list(id, `"tools"`) }
	}
	const tail = `xxx"`
	return []row{
		{"read in omp", 1, 1.3, read(p.bun), read(p.omp)},
		{"read in omp, modern", 1, 1.3, read(p.bun), read(p.ompM)},
		{"read in omp", 16, 0, read(p.bun), read(p.omp)},
		{"echo in omp", 1, 0, ompEcho(p.bun), ompEcho(p.omp)},
		{"echo in omp", 16, 0, ompEcho(p.bun), ompEcho(p.omp)},
		{"tools/list, 40 tools", 1, 1, list(p.bun), list(p.omp)},
		{"tools/list, 40 tools, modern", 1, 1, list(p.bun), list(p.ompM)},
		{"tools/list, 40 tools", 16, 1, list(p.bun), list(p.omp)},
		{"echo, bare Go", 1, 0, scripted(p.bare, echoTool, `"echo"`), scripted(p.script, echoTool, `"echo"`)},
		{"echo, bare Go", 16, 0, scripted(p.bare, echoTool, `"echo"`), scripted(p.script, echoTool, `"echo"`)},
		{"with effects, bare Go", 1, 0, scripted(p.bare, effectTool, `effect`), scripted(p.script, effectTool, `effect`)},
		{"256 KiB, bare Go", 1, 3, scripted(p.bare, smallTool, tail), scripted(p.script, smallTool, tail)},
		{"1 MiB, bare Go", 1, 0, scripted(p.bare, largeTool, tail), scripted(p.script, largeTool, tail)},
	}
}

// sample is what one side showed.
type sample struct {
	took []time.Duration // each request
	rate []float64       // requests a second, each round
}

func (s sample) median() time.Duration { return middle(s.took) }

func middle[T int64 | float64 | time.Duration](all []T) T {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// measure lets clients send requests at the same time, each the next one as soon as the last is answered, until the
// time is over, and adds what it saw. Every client sends at least one.
func (s *sample) measure(ctx context.Context, prepare func(id int) request, clients int, atLeast time.Duration) error {
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	began := time.Now()
	count := 0
	for c := range clients {
		r := prepare(c + 1)
		all.Go(func() {
			var took []time.Duration
			var err error
			for len(took) == 0 || time.Since(began) < atLeast {
				sent := time.Now()
				if err = r.do(ctx); err != nil {
					break
				}
				took = append(took, time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			s.took = append(s.took, took...)
			count += len(took)
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	s.rate = append(s.rate, float64(count)/time.Since(began).Seconds())
	return failed
}
