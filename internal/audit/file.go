package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// load opens the current file and reads what is in it. Called with the lock.
func (l *Ledger) load() error {
	if err := os.MkdirAll(l.cfg.Dir, 0o700); err != nil {
		return plain(err)
	}
	fresh := l.path + ".new"
	switch _, err := os.Stat(l.path); {
	case err == nil:
		_ = os.Remove(fresh) // a rotation that did not get far
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Rename(fresh, l.path) // a rotation that lacked its last step
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		if r, rerr := os.Open(l.path); rerr == nil { // readable at least: open calls are known
			l.index = newIndex(l.cfg.Now())
			_, _ = l.index.read(r)
			_ = r.Close()
		}
		return plain(err)
	}
	if err := f.Chmod(0o600); err != nil {
		l.cfg.Log.Warn("cannot make the audit file private", "err", err)
	}
	l.index = newIndex(l.cfg.Now())
	found, err := l.index.read(f)
	if err != nil {
		_ = f.Close()
		return plain(err)
	}
	l.file, l.size, l.torn = f, found.size, false
	if found.bad > 0 {
		l.note("%d lines of the audit file cannot be read and are passed over", found.bad)
	}
	if found.good < found.size {
		l.setTailAside(found)
	} else if found.unended {
		l.torn = true // complete but for its newline
	}
	return nil
}

// setTailAside moves what follows the last good line into a file of its own.
func (l *Ledger) setTailAside(found scan) {
	tail := make([]byte, min(found.size-found.good, maxTail))
	n, _ := l.file.ReadAt(tail, found.good)
	name := fileName + ".damaged-" + l.cfg.Now().UTC().Format("20060102T150405.000")
	err := os.WriteFile(filepath.Join(l.cfg.Dir, name), tail[:n], 0o600)
	if err == nil {
		err = l.file.Truncate(found.good)
	}
	if err != nil {
		l.torn = true
		l.note("the audit file ends in %d damaged bytes", found.size-found.good)
		return
	}
	l.size = found.good
	l.note("the audit file ended in %d damaged bytes; they are in %s", found.size-found.good, name)
}

// note records damage for Problems.
func (l *Ledger) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.cfg.Log.Warn(text)
	if len(l.notes) < maxNotes {
		l.notes = append(l.notes, text)
	}
}

const (
	// maxTail bounds what is kept of a damaged tail.
	maxTail = 4 << 20
	// maxNotes bounds the damage remembered for status.
	maxNotes = 8
)

// append writes one line after whatever still waits to be written, and returns
// its number. Called with the lock.
func (l *Ledger) append(line []byte) (uint64, error) {
	if err := l.ready(); err != nil {
		return 0, err
	}
	if err := l.flush(); err != nil {
		return 0, err
	}
	if l.size+int64(len(line)) > l.cfg.MaxBytes && !l.cfg.Now().Before(l.retryAt) {
		if l.rotation = l.rotate(); l.rotation != nil {
			l.retryAt = l.cfg.Now().Add(retryOpen)
			l.cfg.Log.Warn("cannot rotate the audit file", "err", l.rotation)
		}
		if l.file == nil {
			return 0, l.fault
		}
	}
	if err := l.write(line); err != nil {
		return 0, err
	}
	return l.wrote, nil
}

// ready makes sure that there is a file.
func (l *Ledger) ready() error {
	if l.closed {
		return os.ErrClosed
	}
	if l.file != nil {
		return nil
	}
	if l.cfg.Now().Before(l.retryAt) {
		return l.fault
	}
	keep := l.index // it knows of calls that the file does not
	if err := l.load(); err != nil {
		l.fault = err
		l.index = keep
		l.retryAt = l.cfg.Now().Add(retryOpen)
		return err
	}
	keep.merge(l.index)
	l.index = keep
	return nil
}

// flush writes the ends that wait.
func (l *Ledger) flush() error {
	for len(l.pending) > 0 {
		if err := l.write(l.pending[0]); err != nil {
			return err
		}
		l.pending = l.pending[1:]
	}
	l.pending = nil
	return nil
}

// write appends one line whole, or leaves the file as it was.
func (l *Ledger) write(line []byte) error {
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.file.Write(line)
	if err != nil {
		if n > 0 && l.file.Truncate(l.size) != nil {
			l.torn = true
			l.size += int64(n)
		}
		l.fault = plain(err)
		return l.fault
	}
	l.torn = false
	l.size += int64(n)
	l.wrote++
	l.fault = nil
	return nil
}

// rotate starts a new file that carries the open starts and the counts of the
// day, and shifts the old ones. At every step a crash leaves either the old
// current file or the complete new one.
func (l *Ledger) rotate() error {
	if err := l.file.Sync(); err != nil {
		return plain(err)
	}
	raise(&l.synced, l.wrote)
	head, err := l.index.carry(l.cfg.Now())
	if err != nil {
		return err
	}
	fresh := l.path + ".new"
	f, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return plain(err)
	}
	if _, err = f.Write(head); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(plain(err), f.Close(), os.Remove(fresh))
	}
	if err := l.shift(); err != nil {
		return errors.Join(plain(err), f.Close(), os.Remove(fresh))
	}
	if err := os.Rename(fresh, l.path); err != nil {
		return errors.Join(plain(err), f.Close())
	}
	syncDir(l.cfg.Dir)
	_ = l.file.Close()
	l.file, l.size, l.torn = f, int64(len(head)), false
	return nil
}

// shift makes room for a new current file.
func (l *Ledger) shift() error {
	if l.cfg.Keep <= 0 {
		return nil // the rename replaces the current one
	}
	for i := l.cfg.Keep - 1; i >= 1; i-- {
		if err := os.Rename(l.rotated(i), l.rotated(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(l.path, l.rotated(1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // it does not exist when an earlier attempt stopped here
	}
	return nil
}

// rotated is the path of the i-th file back; 0 is the current one.
func (l *Ledger) rotated(i int) string {
	if i == 0 {
		return l.path
	}
	return l.path + "." + strconv.Itoa(i)
}

func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// plain takes the path off an error of package os: callers say which file.
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

// day names a local day; counts belong to one.
func day(t time.Time) string { return t.Local().Format(time.DateOnly) }
