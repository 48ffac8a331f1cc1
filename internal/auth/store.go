package auth

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Store is the tokens of one bridge.
type Store struct {
	path string
	now  func() time.Time

	current atomic.Pointer[snapshot]
	mu      sync.Mutex // one reload at a time
	use     *usage
	refused *refusals
}

// snapshot is one state of tokens.json; it never changes.
type snapshot struct {
	stamp   stamp
	records []Record
	valid   map[hash]entry
	retired map[hash]fileRetire
	problem error
}

type entry struct {
	hash   hash
	record Record
	until  time.Time // of an overlap; zero for a token's own hash
}

// stamp tells whether the file is another one than before. Changes replace the
// file, so the inode differs even when time and size do not.
type stamp struct {
	exists bool
	inode  uint64
	mtime  time.Time
	size   int64
	mode   fs.FileMode
	uid    int
}

// Open returns the tokens in the file at path; last uses are kept in the file
// at statePath. It never fails: without a file there are no tokens, and a
// file that cannot be trusted admits nobody until it is mended (see Problem).
func Open(path, statePath string, now func() time.Time) *Store {
	s := &Store{path: path, now: now, use: openUsage(statePath), refused: newRefusals(now)}
	s.snapshot()
	return s
}

// LogTo sets where refused requests are summed up. Call it before serving.
func (s *Store) LogTo(log *slog.Logger) { s.refused.log = log }

// Problem says why the file admits nobody, or nil.
func (s *Store) Problem() error { return s.snapshot().problem }

// ErrRefused is the error of every token that does not count; the errors that
// wrap it say more to the owner and must not reach the caller.
var ErrRefused = errors.New("token refused")

// The reasons, which are only counted.
var (
	errNoToken  = fmt.Errorf("%w: none was sent", ErrRefused)
	errHeader   = fmt.Errorf("%w: malformed Authorization header", ErrRefused)
	errUnknown  = fmt.Errorf("%w: unknown", ErrRefused)
	errExpired  = fmt.Errorf("%w: expired", ErrRefused)
	errRetired  = fmt.Errorf("%w: retired", ErrRefused)
	errNoTokens = fmt.Errorf("%w: the file of tokens is broken", ErrRefused)
)

// Verify returns the peer who holds a token (without "Bearer"). The file is
// looked at first, so a change counts at once.
func (s *Store) Verify(bearer string) (bridge.Peer, error) {
	snap := s.snapshot()
	if snap.problem != nil {
		return bridge.Peer{}, errNoTokens
	}
	h, now := hashOf(bearer), s.now()
	// Looking a hash up leaks, at worst, how much of an unguessable hash
	// matches; the comparison that counts is in constant time.
	if e, ok := snap.valid[h]; ok && subtle.ConstantTimeCompare(e.hash[:], h[:]) == 1 {
		switch {
		case !e.until.IsZero() && !now.Before(e.until):
			s.use.retired(h, now)
			return bridge.Peer{}, errRetired
		case e.record.Expired(now):
			return bridge.Peer{}, errExpired
		}
		return e.record.peer(), nil
	}
	if _, ok := snap.retired[h]; ok {
		s.use.retired(h, now)
		return bridge.Peer{}, errRetired
	}
	return bridge.Peer{}, errUnknown
}

// snapshot returns the present state of the file, reading it if it changed.
func (s *Store) snapshot() *snapshot {
	st, err := stampOf(s.path)
	if cur := s.current.Load(); cur != nil && err == nil && cur.stamp == st {
		return cur
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := s.read()
	s.current.Store(snap)
	return snap
}

// read builds a snapshot from the file as it is now.
func (s *Store) read() *snapshot {
	st, f, err := s.load()
	snap := &snapshot{stamp: st, problem: err}
	if f != nil {
		snap.fill(f)
	}
	return snap
}

// load reads the file: nil without an error when there is none.
func (s *Store) load() (stamp, *tokensFile, error) {
	st, data, err := readTokens(s.path)
	if err == nil && !st.exists {
		return st, nil, nil
	}
	if err == nil {
		var f *tokensFile
		if f, err = parseFile(data); err == nil {
			return st, f, nil
		}
		err = fmt.Errorf("%s cannot be used: %w", s.path, err)
	}
	return st, nil, fmt.Errorf("%w\nno token is accepted until it is mended; to start over: mv %s %s.broken, then make new tokens: a2actl print-remote-config NAME",
		err, s.path, s.path)
}

func (snap *snapshot) fill(f *tokensFile) {
	snap.valid = make(map[hash]entry, len(f.Tokens))
	snap.retired = make(map[hash]fileRetire, len(f.Retired))
	byID := map[string]Record{}
	for _, t := range f.Tokens {
		r, _ := t.record()        // parseFile checked
		h, _ := parseHash(t.Hash) // both
		byID[r.ID] = r
		snap.records = append(snap.records, r)
		snap.valid[h] = entry{hash: h, record: r}
	}
	for _, old := range f.Retired {
		h, _ := parseHash(old.Hash)
		snap.retired[h] = old
		if r, ok := byID[old.Token]; ok {
			snap.valid[h] = entry{hash: h, record: r, until: old.At}
		}
	}
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	return stampFrom(info), nil
}

func stampFrom(info fs.FileInfo) stamp {
	st := stamp{exists: true, mtime: info.ModTime(), size: info.Size(), mode: info.Mode(), uid: -1}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		st.inode, st.uid = sys.Ino, int(sys.Uid)
	}
	return st
}

// readTokens reads the file with the stamp of exactly what was read.
func readTokens(path string) (stamp, []byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hold us up
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}, nil, nil
	}
	if err != nil {
		st, _ := stampOf(path)
		return st, nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return stamp{}, nil, err
	}
	st := stampFrom(info)
	switch {
	case !info.Mode().IsRegular():
		return st, nil, fmt.Errorf("%s is not a regular file", path)
	case st.uid != os.Geteuid():
		return st, nil, fmt.Errorf("%s belongs to another user (uid %d), who could add tokens", path, st.uid)
	case info.Mode().Perm()&0o022 != 0:
		return st, nil, fmt.Errorf("%s can be written by others, who could add tokens: chmod 600 %s", path, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return st, data, err
}
