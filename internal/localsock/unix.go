package localsock

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLive says that another process listens on the socket.
var ErrLive = errors.New("another process listens on this socket")

// probeTimeout bounds the question whether somebody listens: a live socket on
// this machine takes the connection in microseconds, or says that it is full.
const probeTimeout = time.Second

// ownedListener is a unix listener that removes its own file, and no other
// that may stand there by now.
type ownedListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

func (l *ownedListener) Close() error {
	// Remove first: as long as we listen, nobody replaces the file.
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
		_ = os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// bindUnix makes a private socket in a private directory.
func bindUnix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false)
	owned := &ownedListener{UnixListener: ln, path: path}
	// The directory is 0700 already, so the socket is out of reach before this too.
	if err := os.Chmod(path, 0o600); err == nil {
		owned.file, err = os.Lstat(path)
		if err == nil {
			return owned, nil
		}
	}
	_ = ln.Close()
	_ = os.Remove(path)
	return nil, fmt.Errorf("make %s private: %w", path, err)
}

// privateDir makes the directory, or checks that it is ours, and closes it to
// others whatever the umask was.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if owner := ownerOf(info); owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d)", dir, owner)
	}
	switch perm := info.Mode().Perm(); {
	case perm == 0o700:
		return nil
	case perm&0o022 != 0: // somebody's shared place, such as /tmp for root: not ours to close
		return fmt.Errorf("%s is open to other users for writing: choose a directory of its own", dir)
	}
	return os.Chmod(dir, 0o700)
}

func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// lockDir keeps two starting daemons from replacing each other's fresh socket.
func lockDir(dir string) (func(), error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another daemon is starting in %s: %w", dir, err)
	}
	return func() {
		// Unlock by name: a child that is being forked right now may hold a copy.
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
	}, nil
}

// removeStale removes a socket file of ours on which nobody answers.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is not a socket: move it away", path)
	case ownerOf(info) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user (uid %d)", path, ownerOf(info))
	}
	conn, err := net.DialTimeout("unix", path, probeTimeout) //nolint:noctx // bounded by its time-out
	if err == nil {
		_ = conn.Close()
	}
	// Only a refusal proves that nobody listens; a full backlog does not.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return ErrLive
	}
	return os.Remove(path)
}
