package localsock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
)

func TestSecondDaemonLearnsWhoOwnsTheState(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "a2a-bridge")
	lock, err := localsock.LockOwner(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := mode(t, dir); got != 0o700 {
		t.Errorf("directory has mode %o", got)
	}
	var held *localsock.HeldError
	if _, err := localsock.LockOwner(dir); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("second LockOwner = %v", err)
	} else if !strings.Contains(err.Error(), "(pid "+strconv.Itoa(os.Getpid())+")") {
		t.Errorf("it says %q", err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
	again, err := localsock.LockOwner(dir)
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	_ = again.Release()
}

func TestLockFileOfAnEndedDaemonDoesNotCount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "owner.lock"), []byte("1\ngarbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := localsock.LockOwner(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	if got, _ := os.ReadFile(filepath.Join(dir, "owner.lock")); string(got) != strconv.Itoa(os.Getpid())+"\n" {
		t.Errorf("the lock file says %q", got)
	}
}

func TestStateThatCannotBeADirectoryIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := localsock.LockOwner(filepath.Join(file, "state")); err == nil {
		t.Error("LockOwner below a file succeeds")
	}
}
