package bridgetest

import (
	"os"
	"path/filepath"
	"testing"
)

// maxSockDir keeps a directory and a file name like "control.sock" well below the 107 bytes of a socket address
// (103 on macOS).
const maxSockDir = 60

// SockDir returns a private directory, removed with the test, whose path is short enough for sockets: t.TempDir()
// carries the test's name and can overrun the limit.
func SockDir(t testing.TB) string {
	t.Helper()
	base := os.TempDir()
	if len(base)+len("/a2a0123456789") > maxSockDir {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "a2a")
	if err != nil {
		t.Fatalf("make a socket directory: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the socket directory: %v", err)
		}
	})
	return dir
}

// ModuleRoot returns the directory of go.mod, whatever package the test runs in.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", &os.PathError{Op: "find", Path: "go.mod", Err: os.ErrNotExist}
		}
		dir = up
	}
}
