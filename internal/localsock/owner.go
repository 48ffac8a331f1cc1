package localsock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock makes this process the only daemon on a state directory.
type Lock struct{ file *os.File }

// HeldError says that another daemon owns the state directory.
type HeldError struct {
	Dir string
	PID int // 0 when the file does not say
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return "another a2a-bridge owns " + e.Dir
	}
	return fmt.Sprintf("another a2a-bridge (pid %d) owns %s", e.PID, e.Dir)
}

// LockOwner takes the lock of a state directory, which it makes if need be.
// It returns a *HeldError when another daemon has it. The kernel gives the
// lock back when we end, however we end; the file stays.
func LockOwner(stateDir string) (*Lock, error) {
	if err := privateDir(stateDir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(stateDir, "owner.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &HeldError{Dir: stateDir, PID: readPID(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	// The pid is for the message of the next one; a full disk must not stop us here.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Lock{file: f}, nil
}

func readPID(f *os.File) int {
	buf := make([]byte, 20) // more than any pid needs
	n, _ := f.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Release gives the lock back.
func (l *Lock) Release() error {
	_ = l.file.Truncate(0)
	// Unlock by name: a child that is being forked right now may hold a copy.
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
