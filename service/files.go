package service

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// The daemon's own files in the state directory.
const (
	keyFile      = "session.key"
	lastStopFile = "last-stop.json"
	keyBytes     = 32
)

// macKey is the key that session and event ids are made with, kept so that
// they outlive the daemon. With an error the key is good for this process.
func macKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	key, err := os.ReadFile(path)
	if err == nil && len(key) == keyBytes {
		return key, nil
	}
	fresh := make([]byte, keyBytes)
	_, _ = rand.Read(fresh) // never fails
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fresh, fmt.Errorf("read %s: %w", path, err)
	}
	if err := renameio.WriteFile(path, fresh, 0o600, renameio.IgnoreUmask()); err != nil {
		return fresh, fmt.Errorf("write %s: %w", path, err)
	}
	return fresh, nil
}

// readLastStop tells how the daemon before this one ended; nil when nobody
// knows, as after a crash.
func readLastStop(dir string) *control.Stop {
	path := filepath.Join(dir, lastStopFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	_ = os.Remove(path) // else a crash of this one would look like that stop
	s := &control.Stop{}
	if json.Unmarshal(raw, s) != nil {
		return nil
	}
	return s
}

func writeLastStop(dir, reason string, log *slog.Logger) {
	raw, err := json.Marshal(control.Stop{At: time.Now(), Reason: reason})
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, lastStopFile), raw, 0o600, renameio.IgnoreUmask())
	}
	if err != nil {
		log.Warn("the stop was not written down", "err", err)
	}
}
