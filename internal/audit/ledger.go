// Package audit is the append-only ledger of who asked for what and how it
// ended: JSON lines, one when a call is handed to a host and one when it is
// over. It never sees the value of an argument.
//
// It promises that a durable line is on the disk before Start or End returns,
// that a start without an end is found again by the next process, that
// rotation keeps open starts in the current file, and that damage (a torn last
// line, a full disk, a directory that cannot be written) costs at most the
// damaged lines and is named by Problems. What a call means, and whether
// something may run while the ledger is in trouble, is the hub's to decide.
//
// One lock covers the file and what is remembered of it; it is held while a
// line is appended, not while the disk syncs. Callers who wait for a sync at
// the same time share one.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

const (
	// fileName is the current file; rotated ones are fileName.1, .2 and so on.
	fileName = "audit.jsonl"
	// minBytes is the smallest file worth rotating: less would rotate on
	// carried starts alone.
	minBytes = 64 << 10
	// retryOpen spaces attempts to open or rotate a file that refuses.
	retryOpen = time.Second
	// maxPending bounds the ends that wait in memory for a disk that takes
	// writes again: about 2 MiB.
	maxPending = 4096
)

// Config is what a Ledger is made of.
type Config struct {
	Dir      string           // of audit.jsonl
	MaxBytes int64            // of one file, before it is rotated
	Keep     int              // rotated files
	Now      func() time.Time // nil: time.Now
	Log      *slog.Logger     // nil: silent
}

// Ledger is the audit file and what is remembered of it.
type Ledger struct {
	cfg  Config
	path string

	mu       sync.Mutex
	file     *os.File // nil: it cannot be opened for writing
	size     int64
	torn     bool   // the file ends in the middle of a line
	wrote    uint64 // lines
	index    *index
	pending  [][]byte // ends that could not be written yet
	lost     int      // ends that found no room in pending
	fault    error    // of the last write; nil when it worked
	rotation error    // of the last attempt to rotate
	retryAt  time.Time
	notes    []string // damage found at start
	closed   bool

	syncMu sync.Mutex // one fsync at a time; taken before mu
	synced atomic.Uint64
}

// Open reads the ledger in cfg.Dir, making it if there is none. A damaged file
// is no error: the damage is set aside and Problems says so. With an error the
// Ledger is there all the same: it refuses starts, keeps ends in memory, and
// tries to open the file again with each write.
func Open(cfg Config) (*Ledger, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.MaxBytes = max(cfg.MaxBytes, minBytes)
	l := &Ledger{cfg: cfg, path: filepath.Join(cfg.Dir, fileName), index: newIndex(cfg.Now())}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.load(); err != nil {
		l.fault = err
		l.retryAt = cfg.Now().Add(retryOpen)
		return l, fmt.Errorf("open the audit file: %w", err)
	}
	return l, nil
}

// Start writes down that a call is about to be handed over. With sync set it
// is on the disk when Start returns nil. The error is a bridge.LedgerFault.
func (l *Ledger) Start(s bridge.CallStart, sync bool) error {
	line, err := encode(keyStart, s)
	if err != nil {
		s.Ref.RPC = nil // the only part that is not of our making
		if line, err = encode(keyStart, s); err != nil {
			return fmt.Errorf("%w: %w", bridge.LedgerFault, err)
		}
	}
	l.mu.Lock()
	seq, err := l.append(line)
	if err == nil {
		l.index.start(s, sync)
	}
	l.mu.Unlock()
	if err == nil && sync {
		err = l.syncTo(seq)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", bridge.LedgerFault, err)
	}
	return nil
}

// End writes down how a call ended; with Late set, what came after that. It is
// on the disk when End returns nil if the start was. A line that cannot be
// written is kept and written with the next one that can; the error, a
// bridge.LedgerFault, says so.
func (l *Ledger) End(e bridge.CallEnd) error {
	line, err := encode(keyEnd, e)
	if err != nil {
		return fmt.Errorf("%w: %w", bridge.LedgerFault, err)
	}
	l.mu.Lock()
	durable := !e.Late && l.index.open[e.ID].durable
	seq, err := l.append(line) // before it counts: a rotation would carry it over as well
	l.index.end(e)
	if err != nil {
		if len(l.pending) < maxPending {
			l.pending = append(l.pending, line)
		} else {
			l.lost++
		}
	}
	l.mu.Unlock()
	if err == nil && durable {
		err = l.syncTo(seq)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", bridge.LedgerFault, err)
	}
	return nil
}

// Open lists the calls that were started and have not ended.
func (l *Ledger) Open() []bridge.CallStart {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.openStarts()
}

// Ran lists the calls that ended since a time and ran, as far as they are
// remembered: their answers may not have reached their callers.
func (l *Ledger) Ran(since time.Time) []bridge.CallStart {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []bridge.CallStart
	for _, r := range l.index.recent {
		if r.Start != nil && r.End != nil && r.End.Executed == bridge.ExecutedYes && !r.End.At.Before(since) {
			out = append(out, *r.Start)
		}
	}
	return out
}

// Today counts the calls that ended since midnight, by how.
func (l *Ledger) Today() map[bridge.State]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.today(l.cfg.Now())
}

// Problems says what is wrong with the ledger, for its owner; none when all is
// well.
func (l *Ledger) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := append([]string(nil), l.notes...)
	if l.fault != nil {
		out = append(out, fmt.Sprintf("the audit file cannot be written, so tools that may change something are refused: %v", l.fault))
	}
	if l.rotation != nil {
		out = append(out, fmt.Sprintf("the audit file cannot be rotated and grows: %v", l.rotation))
	}
	if l.lost > 0 {
		out = append(out, fmt.Sprintf("%d ends of calls are missing from the audit file: it could not be written for too long", l.lost))
	}
	return out
}

// Close writes what is left to write and closes the file.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.flush(), l.file.Sync(), l.file.Close())
	l.file = nil
	l.synced.Store(l.wrote)
	return err
}

// syncTo returns once the line seq is on the disk. The first of those who wait
// syncs for all whose lines are written by then.
func (l *Ledger) syncTo(seq uint64) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.synced.Load() >= seq {
		return nil
	}
	l.mu.Lock()
	f, upTo := l.file, l.wrote
	l.mu.Unlock()
	if f == nil {
		if l.synced.Load() >= seq { // closed or rotated, and synced by that
			return nil
		}
		return os.ErrClosed
	}
	err := f.Sync()
	if err != nil && l.synced.Load() >= seq { // rotated meanwhile, and synced by that
		return nil
	}
	if err != nil {
		l.mu.Lock()
		l.fault = plain(err)
		l.mu.Unlock()
		return plain(err)
	}
	raise(&l.synced, upTo)
	return nil
}

// raise sets v to n unless it is beyond that already.
func raise(v *atomic.Uint64, n uint64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// The keys of the three kinds of line. The body of start and end begins with
// the call's id, which lets a reader pair them without decoding.
const (
	keyStart = "start"
	keyEnd   = "end"
	keyMark  = "mark" // counts of the day, carried over by rotation
)

func encode(key string, body any) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(key)+len(raw)+8)
	line = append(line, `{"`...)
	line = append(line, key...)
	line = append(line, `":`...)
	line = append(line, raw...)
	return append(line, '}', '\n'), nil
}
