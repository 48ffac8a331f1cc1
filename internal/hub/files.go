package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/google/renameio/v2"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// The files of the hub in the state directory.
const (
	namesFile  = "hosts.json"
	offersFile = "catalogue.json"
	pauseFile  = "paused.json"
)

// fileVersion is the version of all three. A file of a later one is set aside.
const fileVersion = 1

// maxFile bounds a state file that is read.
const maxFile = 64 << 20

// dirty says which files do not hold what they should.
type dirty struct{ names, offers, pause bool }

// savedOffer is one catalogue in catalogue.json.
type savedOffer struct {
	Host    string           `json:"host"`
	Hash    string           `json:"hash"`
	At      time.Time        `json:"at"`
	Tools   []bridge.Tool    `json:"tools"`
	Skipped []bridge.Skipped `json:"skipped,omitempty"`
	Loops   []string         `json:"loops,omitempty"`
}

type offersDoc struct {
	Version    int          `json:"version"`
	Catalogues []savedOffer `json:"catalogues"`
}

type pauseDoc struct {
	Version int `json:"version"`
	pause
}

func (h *Hub) loadNames() {
	h.load(namesFile, &h.names, func() int { return h.names.Version })
	h.names.Version = fileVersion
	if h.names.Told == nil {
		h.names.Told = map[string]string{}
	}
	for i := range h.names.Known {
		if k := &h.names.Known[i]; k.Attached && k.PID > 1 && !pidAlive(k.PID) {
			k.Attached, k.LeftAt, k.LeftReason = false, k.SeenAt, reasonEnded
		}
	}
}

func (h *Hub) loadOffers() {
	var doc offersDoc
	h.load(offersFile, &doc, func() int { return doc.Version })
	for _, s := range doc.Catalogues {
		valid, bad := validate(s.Tools) // the file may have been edited
		h.cats[s.Host] = &offer{hash: s.Hash, tools: valid, skipped: append(s.Skipped, bad...), loops: s.Loops, at: s.At}
		if len(bad) > 0 {
			h.cats[s.Host].hash = "" // ask the host again
		}
		h.refreshView(s.Host)
	}
}

func (h *Hub) loadPause() {
	var doc pauseDoc
	h.load(pauseFile, &doc, func() int { return doc.Version })
	h.pause = doc.pause
	if h.pause.Paused && !h.pause.Until.IsZero() {
		h.wakeAt(h.pause.Until)
	}
}

// load reads a state file into v. One that cannot be used is set aside and
// becomes a problem, and v stays empty.
func (h *Hub) load(name string, v any, version func() int) {
	path := filepath.Join(h.cfg.StateDir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var raw []byte
	if err == nil && info.Size() > maxFile {
		err = errors.New("it is too large")
	}
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		h.problems[name] = fmt.Sprintf("%s cannot be read: %v", name, plain(err))
		return
	}
	err = json.Unmarshal(raw, v)
	if err == nil && version() > fileVersion {
		err = errors.New("it is of a later version of a2a-bridge")
	}
	if err == nil {
		return
	}
	empty(v)
	aside := name + ".broken-" + h.now().UTC().Format("20060102T150405.000")
	text := fmt.Sprintf("%s was damaged and is set aside as %s", name, aside)
	if rerr := os.Rename(path, filepath.Join(h.cfg.StateDir, aside)); rerr != nil {
		text = fmt.Sprintf("%s is damaged and cannot be set aside: %v", name, plain(rerr))
	}
	h.log.Warn(text, "err", err)
	h.problems[name] = text
}

// empty undoes a half-finished Unmarshal.
func empty(v any) {
	switch v := v.(type) {
	case *names:
		*v = names{}
	case *offersDoc:
		*v = offersDoc{}
	case *pauseDoc:
		*v = pauseDoc{}
	}
}

// save writes what has changed. A file that cannot be written becomes a
// problem until it can; everything goes on without it.
func (h *Hub) save() {
	h.saving.Lock()
	defer h.saving.Unlock()
	h.mu.Lock()
	d := h.dirty
	h.dirty = dirty{}
	docs := map[string]any{}
	if d.names {
		docs[namesFile] = h.namesDoc()
	}
	if d.offers {
		docs[offersFile] = h.offersDoc()
	}
	if d.pause {
		docs[pauseFile] = pauseDoc{Version: fileVersion, pause: h.pause}
	}
	h.mu.Unlock()
	for name, doc := range docs {
		raw, err := json.Marshal(doc)
		if err == nil {
			err = renameio.WriteFile(filepath.Join(h.cfg.StateDir, name), raw, 0o600, renameio.IgnoreUmask())
		}
		h.saved(name, err)
	}
}

// saved notes how the writing of a file went.
func (h *Hub) saved(name string, err error) {
	key := "save " + name
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.problems, key)
		return
	}
	if h.problems[key] == "" {
		h.log.Error("a state file cannot be written", "file", name, "err", err)
	}
	h.problems[key] = fmt.Sprintf("%s cannot be written: %v", name, plain(err))
	switch name { // again, with the next change
	case namesFile:
		h.dirty.names = true
	case offersFile:
		h.dirty.offers = true
	case pauseFile:
		h.dirty.pause = true
	}
}

// namesDoc copies what hosts.json should hold.
func (h *Hub) namesDoc() names {
	doc := h.names
	doc.Known = slices.Clone(h.names.Known)
	doc.Told = maps.Clone(h.names.Told)
	for i := range doc.Known {
		if ho := h.hosts[doc.Known[i].Name]; ho != nil && ho.link != nil {
			doc.Known[i].SeenAt = h.now()
		}
	}
	return doc
}

func (h *Hub) offersDoc() offersDoc {
	doc := offersDoc{Version: fileVersion}
	for _, name := range slices.Sorted(maps.Keys(h.cats)) {
		o := h.cats[name]
		doc.Catalogues = append(doc.Catalogues, savedOffer{name, o.hash, o.at, o.tools, o.skipped, o.loops})
	}
	return doc
}

func sortedValues(m map[string]string) []string {
	out := slices.Collect(maps.Values(m))
	sort.Strings(out)
	return out
}

// plain takes the path off an error of package os.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}
