package auth

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// usage is who used which token when. It is a convenience: a file that is lost
// or broken costs nothing but memory of the past.
type usage struct {
	path string

	mu    sync.Mutex // guards the rest
	dirty bool
	file  usageFile
}

type usageFile struct {
	Version int                 `json:"version"`
	Tokens  map[string]*lastUse `json:"tokens"`            // by record id
	Retired map[string]*oldUse  `json:"retired,omitempty"` // by hash
}

type lastUse struct {
	At     time.Time     `json:"at"`
	Client bridge.Client `json:"client"`
}

type oldUse struct {
	Count int       `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

func openUsage(path string) *usage {
	u := &usage{path: path}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxFile {
		if data, err := os.ReadFile(path); err == nil && (json.Unmarshal(data, &u.file) != nil || u.file.Version != fileVersion) {
			u.file = usageFile{}
		}
	}
	u.file.Version = fileVersion
	if u.file.Tokens == nil {
		u.file.Tokens = map[string]*lastUse{}
	}
	if u.file.Retired == nil {
		u.file.Retired = map[string]*oldUse{}
	}
	return u
}

func (u *usage) seen(token string, now time.Time, c bridge.Client) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.file.Tokens[token]
	if e == nil {
		e = &lastUse{}
		u.file.Tokens[token] = e
	}
	e.At, u.dirty = now, true
	if c.Name != "" { // the stateful era says it once per session
		e.Client = bridge.Client{Name: plain(c.Name), Version: plain(c.Version)}
	}
}

func (u *usage) retired(h hash, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.file.Retired[h.String()]
	if e == nil {
		e = &oldUse{First: now}
		u.file.Retired[h.String()] = e
	}
	e.Count++
	e.Last, u.dirty = now, true
}

// plain keeps the printable part of a client's word about itself, at a length
// that fits into a table.
func plain(s string) string {
	const most = 64
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, cutRunes(s, most))
	return s
}

func cutRunes(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i]
		}
		n++
	}
	return s
}

// Seen records that a token (by record id) was used just now. A client without
// a name leaves the known one.
func (s *Store) Seen(token string, c bridge.Client) { s.use.seen(token, s.now(), c) }

// Learn takes over a use that another process saw of the token of a name, if
// it is later than what is known. It is not written down: that is for the
// process that saw it.
func (s *Store) Learn(name string, at time.Time, c bridge.Client) {
	r, err := s.Get(name)
	if err != nil {
		return
	}
	s.use.mu.Lock()
	defer s.use.mu.Unlock()
	if e := s.use.file.Tokens[r.ID]; e == nil || at.After(e.At) {
		s.use.file.Tokens[r.ID] = &lastUse{At: at, Client: c}
	}
}

// Used returns when a token was used last, and by which client; zero when it
// never was or its name is unknown.
func (s *Store) Used(name string) (time.Time, bridge.Client) {
	r, err := s.Get(name)
	if err != nil {
		return time.Time{}, bridge.Client{}
	}
	s.use.mu.Lock()
	defer s.use.mu.Unlock()
	if e := s.use.file.Tokens[r.ID]; e != nil {
		return e.At, e.Client
	}
	return time.Time{}, bridge.Client{}
}

// RetiredUse tells that somebody still uses a token that stopped working.
type RetiredUse struct {
	Name    string    // of the token
	Revoked bool      // the token is gone; else it has a newer secret
	At      time.Time // when it stopped working
	Count   int       // uses since then
	First   time.Time
	Last    time.Time
}

// RetiredUses lists the retired tokens that are still in use somewhere, the
// latest use first.
func (s *Store) RetiredUses() []RetiredUse {
	snap := s.snapshot()
	ids := snap.ids()
	s.use.mu.Lock()
	defer s.use.mu.Unlock()
	var uses []RetiredUse
	for h, old := range snap.retired {
		if e := s.use.file.Retired[h.String()]; e != nil {
			uses = append(uses, RetiredUse{Name: old.Name, Revoked: !ids[old.Token], At: old.At, Count: e.Count, First: e.First, Last: e.Last})
		}
	}
	slices.SortFunc(uses, func(a, b RetiredUse) int { return b.Last.Compare(a.Last) })
	return uses
}

// Flush writes the last uses down if there are new ones, and says in the log
// what was refused. The daemon calls it once a minute and when it stops.
func (s *Store) Flush() error {
	s.refused.report()
	snap := s.snapshot()
	s.use.mu.Lock()
	defer s.use.mu.Unlock()
	if !s.use.dirty {
		return nil
	}
	if snap.problem == nil { // forget tokens that are gone
		s.use.keep(snap)
	}
	data, err := json.Marshal(s.use.file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.use.path), 0o700); err != nil {
		return err
	}
	if err := writePrivate(s.use.path, data); err != nil {
		return err
	}
	s.use.dirty = false
	return nil
}

// ids are those of the tokens that there are.
func (snap *snapshot) ids() map[string]bool {
	ids := map[string]bool{}
	for _, r := range snap.records {
		ids[r.ID] = true
	}
	return ids
}

func (u *usage) keep(snap *snapshot) {
	ids := snap.ids()
	for id := range u.file.Tokens {
		if !ids[id] {
			delete(u.file.Tokens, id)
		}
	}
	hashes := map[string]bool{}
	for h := range snap.retired {
		hashes[h.String()] = true
	}
	for h := range u.file.Retired {
		if !hashes[h] {
			delete(u.file.Retired, h)
		}
	}
}
