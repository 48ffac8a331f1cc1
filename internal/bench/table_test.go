package bench_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"text/tabwriter"
	"time"
)

const (
	// rounds are how often each side is measured, in turns, so that what else the machine does meets both.
	rounds = 7
	// roundTime is how long a side is measured in one round.
	roundTime = 300 * time.Millisecond
	// warmTime lets connections open and compilers finish before the first round.
	warmTime = 200 * time.Millisecond
	// tableTime bounds everything.
	tableTime = 5 * time.Minute
)

// TestTable prints what -bench-table is for. Without that flag it makes one request of each kind, so that the
// measurements are known to work.
func TestTable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), tableTime)
	defer cancel()
	p := startParts(t)
	var lines []line
	for _, r := range p.rows() {
		var baseline, bridge sample
		both := func(atLeast time.Duration) {
			if err := baseline.measure(ctx, r.baseline, r.clients, atLeast); err != nil {
				t.Errorf("%s, %d clients, baseline: %v", r.name, r.clients, err)
			}
			if err := bridge.measure(ctx, r.bridge, r.clients, atLeast); err != nil {
				t.Errorf("%s, %d clients, bridge: %v", r.name, r.clients, err)
			}
		}
		if !*tableFlag {
			both(0)
			continue
		}
		both(warmTime)
		baseline, bridge = sample{}, sample{}
		for range rounds {
			both(roundTime)
		}
		lines = append(lines, line{r, baseline, bridge})
	}
	if *tableFlag && !t.Failed() {
		printTable(os.Stdout, lines)
	}
}

type line struct {
	row              row
	baseline, bridge sample
}

func printTable(out io.Writer, lines []line) {
	fmt.Fprintf(out, "%s/%s, %d cores, %d rounds of %s for each side in turns; medians\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rounds, roundTime)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\tclients\tbaseline\tbridge\tratio\twanted\tbaseline/s\tbridge/s\tratio\t\n")
	for _, l := range lines {
		a, b := l.baseline.median(), l.bridge.median()
		ra, rb := middle(l.baseline.rate), middle(l.bridge.rate)
		ratio, wanted := float64(b)/float64(a), ""
		if l.row.limit > 0 {
			wanted = fmt.Sprintf("≤ %.1f, met", l.row.limit)
			if ratio > l.row.limit {
				wanted = fmt.Sprintf("≤ %.1f, missed", l.row.limit)
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.2f\t%s\t%.0f\t%.0f\t%.2f\t\n", l.row.name, l.row.clients,
			a.Round(time.Microsecond), b.Round(time.Microsecond), ratio, wanted, ra, rb, rb/ra)
	}
	_ = w.Flush() // to a terminal
}
