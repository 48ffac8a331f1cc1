package hub

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	// maxKnown bounds the names that are remembered.
	maxKnown = 32
	// maxHostName bounds a host's name: it is a part of an address.
	maxHostName = 64
	// maxTold bounds the peers of which it is remembered where their address
	// led last.
	maxTold = 256
)

// names is what hosts.json holds: which name belongs to which directory, who
// is main, and what peers know of that.
type names struct {
	Version int               `json:"version"`
	Main    string            `json:"main"`
	Pinned  bool              `json:"pinned"`
	Known   []knownHost       `json:"known"`
	Told    map[string]string `json:"told"` // peer to the main that it last dealt with
}

// knownHost is a name, with the host that had it last.
type knownHost struct {
	Name       string    `json:"name"`
	Dir        string    `json:"dir"`
	Chosen     bool      `json:"chosen,omitempty"` // by --name or the environment, not by the directory
	Kind       string    `json:"kind"`
	Instance   string    `json:"instance"`
	PID        int       `json:"pid"`
	Attached   bool      `json:"attached"`
	SeenAt     time.Time `json:"seen_at"`
	LeftAt     time.Time `json:"left_at"`
	LeftReason string    `json:"left_reason,omitempty"`
}

// find returns what is remembered of a name.
func (n *names) find(name string) *knownHost {
	for i := range n.Known {
		if n.Known[i].Name == name {
			return &n.Known[i]
		}
	}
	return nil
}

// seen reports whether a host ever had the name, as far as is remembered.
func (h *Hub) seen(name string) bool {
	return h.names.find(name) != nil || h.cats[name] != nil
}

// choose picks the name of a host that says hello. taken reports names that
// another host has now.
func (n *names) choose(hello hostlink.Hello, taken func(string) bool) string {
	for _, k := range n.Known {
		if k.Instance == hello.Instance && !taken(k.Name) {
			return k.Name
		}
	}
	if wanted := cleanName(hello.Name); wanted != "" {
		return free(wanted, taken)
	}
	for _, k := range n.Known { // in the order in which they were first given
		if k.Dir == hello.CWD && !k.Chosen && !taken(k.Name) {
			return k.Name
		}
	}
	base := cleanName(filepath.Base(hello.CWD))
	if base == "" {
		base = cleanName(hello.Kind)
	}
	if base == "" {
		base = "host"
	}
	return free(base, func(name string) bool {
		k := n.find(name)
		return taken(name) || (k != nil && (k.Dir != hello.CWD || k.Chosen))
	})
}

// free is the name, or else the lowest NAME-2, NAME-3 … that is not taken.
func free(name string, taken func(string) bool) string {
	if !taken(name) {
		return name
	}
	for i := 2; ; i++ {
		suffix := "-" + strconv.Itoa(i)
		if try := name[:min(len(name), maxHostName-len(suffix))] + suffix; !taken(try) {
			return try
		}
	}
}

// cleanName makes a name fit for an address: letters, digits, dot, underscore
// and hyphen of ASCII.
func cleanName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
		if b.Len() >= maxHostName {
			break
		}
	}
	return strings.Trim(b.String(), "-.")
}

// remember notes that a host has a name now.
func (n *names) remember(name string, hello hostlink.Hello, now time.Time, keep func(string) bool) {
	k := n.find(name)
	if k == nil {
		n.forgetOldest(keep)
		n.Known = append(n.Known, knownHost{Name: name})
		k = &n.Known[len(n.Known)-1]
	}
	*k = knownHost{
		Name: name, Dir: hello.CWD, Chosen: cleanName(hello.Name) != "", Kind: hello.Kind,
		Instance: hello.Instance, PID: hello.PID, Attached: true, SeenAt: now,
	}
}

// forgetOldest makes room for one more name.
func (n *names) forgetOldest(keep func(string) bool) {
	for len(n.Known) >= maxKnown {
		oldest := -1
		for i, k := range n.Known {
			if !keep(k.Name) && (oldest < 0 || k.SeenAt.Before(n.Known[oldest].SeenAt)) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		n.Known = slices.Delete(n.Known, oldest, oldest+1)
	}
}

// gone notes that a host has left.
func (n *names) gone(name, reason string, at time.Time) {
	if k := n.find(name); k != nil {
		k.Attached = false
		k.LeftAt, k.SeenAt = at, at
		k.LeftReason = reason
	}
}
