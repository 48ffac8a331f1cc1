package bridgetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// CacheVariable selects where the test tools and the built binaries are kept; the default is below the temp directory.
const CacheVariable = "A2A_TEST_CACHE"

// lockPoll is how often a test process looks whether another one is done with the cache.
const lockPoll = 100 * time.Millisecond

// cacheDir returns the cache directory, made if need be. One that belongs to somebody else is refused, since we run
// what lies in it.
func cacheDir() (string, error) {
	dir := os.Getenv(CacheVariable)
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "a2a-bridge-test-cache")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the test cache: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("look at the test cache: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return "", fmt.Errorf("the test cache %s belongs to uid %d: set %s to a directory of your own", dir, st.Uid, CacheVariable)
	}
	return dir, nil
}

// locked runs do while no other test process holds the lock of that name.
func locked(ctx context.Context, dir, name string, do func() error) (err error) {
	lock := flock.New(filepath.Join(dir, name+".lock"))
	ok, err := lock.TryLockContext(ctx, lockPoll)
	if err != nil {
		return fmt.Errorf("wait for another test process to finish with %s: %w", name, err)
	}
	if !ok {
		return fmt.Errorf("wait for another test process to finish with %s", name)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return do()
}
