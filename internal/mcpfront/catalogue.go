package mcpfront

import (
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Limits of the cache of lists.
const (
	// maxHosts is above the number of names that the hub remembers.
	maxHosts = 64
	// maxViews bounds the lists kept of one catalogue, one for each set of globs
	// among the tokens. Past it they are made again when asked for.
	maxViews = 64
)

// listHash tells lists apart.
type listHash [16]byte

// list is what one peer sees of a catalogue, as ready results of tools/list.
type list struct {
	hash   listHash
	legacy []byte
	modern []byte
}

// listings keeps lists as long as their catalogue is the current one.
type listings struct {
	server json.RawMessage // serverInfo, for the stateless era
	log    *slog.Logger

	mu    sync.Mutex
	hosts map[string]*views
}

type views struct {
	catalogue *bridge.Catalogue
	byGlobs   map[string]*list
}

// of gives the list that a peer sees.
func (c *listings) of(cat *bridge.Catalogue, peer bridge.Peer) *list {
	globs := strings.Join(peer.Tools, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.hosts[cat.Host]
	if v == nil || v.catalogue != cat && (cat.Hash == "" || v.catalogue.Hash != cat.Hash) {
		if c.hosts == nil || len(c.hosts) >= maxHosts {
			c.hosts = make(map[string]*views)
		}
		v = &views{cat, make(map[string]*list)}
		c.hosts[cat.Host] = v
	}
	l := v.byGlobs[globs]
	if l == nil {
		if len(v.byGlobs) >= maxViews {
			clear(v.byGlobs)
		}
		// Made under the lock: it happens once for each new catalogue, and who
		// asks meanwhile would only make the same.
		l = c.build(cat, peer)
		v.byGlobs[globs] = l
	}
	return l
}

func (c *listings) build(cat *bridge.Catalogue, peer bridge.Peer) *list {
	tools := []byte(`"tools":[`)
	n := 0
	for _, t := range cat.Tools {
		if !peer.MayCall(t.Name) {
			continue
		}
		def, err := definition(t)
		if err != nil {
			c.log.Warn("tool left out of the list", "tool", t.Name, "err", err)
			continue
		}
		if n > 0 {
			tools = append(tools, ',')
		}
		tools = append(tools, def...)
		n++
	}
	tools = append(tools, ']')
	sum := sha256.Sum256(tools)
	l := &list{legacy: join(`{`, tools, `}`)}
	// The list depends on the token, and a changed one should be seen at once.
	l.modern = join(`{"resultType":"complete",`, tools,
		`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":`, c.server, `}}`)
	copy(l.hash[:], sum[:])
	return l
}

func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		case json.RawMessage:
			b = append(b, p...)
		}
	}
	return b
}
