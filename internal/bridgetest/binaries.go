package bridgetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	// buildTimeout bounds the build of both programs from an empty build cache.
	buildTimeout = 8 * time.Minute
	// binaryKeep is how long the cache keeps programs that were built from an older tree: longer than any test run.
	binaryKeep = 24 * time.Hour
)

// Programs are our two binaries, built from the tree under test.
type Programs struct {
	Dir    string // holds both, for PATH
	Bridge string
	Ctl    string
}

var buildOnce = sync.OnceValues(build)

// Binaries builds a2a-bridge and a2actl, once per test process. Packages that test at the same time share them: they
// lie in the cache under the hash of their bytes, so that a later build never changes a program that is running.
func Binaries(t testing.TB) *Programs {
	t.Helper()
	got, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func build() (*Programs, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	var dir string
	err = locked(ctx, cache, "build", func() error {
		dir, err = buildInto(ctx, root, cache)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Programs{Dir: dir, Bridge: filepath.Join(dir, "a2a-bridge"), Ctl: filepath.Join(dir, "a2actl")}, nil
}

func buildInto(ctx context.Context, root, cache string) (string, error) {
	// The stage keeps its place: go build leaves a program alone that is up to date, which saves linking it.
	stage := filepath.Join(cache, "build")
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return "", fmt.Errorf("make the build directory: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", stage+string(filepath.Separator), "./cmd/a2a-bridge", "./cmd/a2actl")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	names := []string{"a2a-bridge", "a2actl"}
	sum := sha256.New()
	for _, name := range names {
		if err := copyTo(sum, filepath.Join(stage, name)); err != nil {
			return "", err
		}
	}
	bins := filepath.Join(cache, "bin")
	dir := filepath.Join(bins, hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		now := time.Now()
		return dir, os.Chtimes(dir, now, now)
	}
	prune(bins)
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	if err := os.MkdirAll(part, 0o700); err != nil {
		return "", err
	}
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(part, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
		if err != nil {
			return "", err
		}
		if err := copyTo(f, filepath.Join(stage, name)); err != nil {
			f.Close()
			return "", err
		}
		if err := f.Close(); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(part, dir)
}

func copyTo(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// prune removes programs that no running test can still need. What it cannot remove costs disk space alone.
func prune(bins string) {
	entries, err := os.ReadDir(bins)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > binaryKeep {
			_ = os.RemoveAll(filepath.Join(bins, e.Name()))
		}
	}
}
