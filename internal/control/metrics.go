package control

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Gauges is a moment's figures for the metrics page.
type Gauges struct {
	Hosts    int
	Peers    int
	Running  int
	Queued   int
	Streams  int
	Refused  int            // tokens refused in the last day
	Today    map[string]int // calls that ended today, by state
	Problems int
}

type collector struct {
	gauges func() Gauges
	plain  []plainGauge
	today  *prometheus.Desc
}

type plainGauge struct {
	desc *prometheus.Desc
	of   func(Gauges) int
}

// NewMetrics serves the figures, and those of the Go runtime and the process,
// in Prometheus' text form.
func NewMetrics(gauges func() Gauges) http.Handler {
	gauge := func(name, help string, of func(Gauges) int) plainGauge {
		return plainGauge{prometheus.NewDesc("a2a_bridge_"+name, help, nil, nil), of}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{
		gauges: gauges,
		plain: []plainGauge{
			gauge("hosts", "Hosts attached.", func(g Gauges) int { return g.Hosts }),
			gauge("peers", "Tokens in use by a connected client.", func(g Gauges) int { return g.Peers }),
			gauge("calls_running", "Calls given to a host and not over.", func(g Gauges) int { return g.Running }),
			gauge("calls_queued", "Calls waiting for a host.", func(g Gauges) int { return g.Queued }),
			gauge("streams", "Open event streams.", func(g Gauges) int { return g.Streams }),
			gauge("tokens_refused_24h", "Requests with a missing or wrong token in the last 24 hours.", func(g Gauges) int { return g.Refused }),
			gauge("problems", "Problems that status shows.", func(g Gauges) int { return g.Problems }),
		},
		today: prometheus.NewDesc("a2a_bridge_calls_today", "Calls that ended since midnight, by state.", []string{"state"}, nil),
	})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, p := range c.plain {
		ch <- p.desc
	}
	ch <- c.today
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	g := c.gauges()
	for _, p := range c.plain {
		ch <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(p.of(g)))
	}
	for state, n := range g.Today {
		ch <- prometheus.MustNewConstMetric(c.today, prometheus.GaugeValue, float64(n), state)
	}
}
