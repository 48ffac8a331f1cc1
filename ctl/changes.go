package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"

	"github.com/a2a-bridge/a2a-bridge/internal/machine"
)

// changes are what a command does to this machine, one by one. Each is said
// once it is done; with dry nothing is done, so that the list is the plan.
type changes struct {
	a    *app
	dry  bool
	loud bool // say each
	list []string
}

func (c *changes) do(what string, f func() error) error {
	if !c.dry {
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	c.list = append(c.list, what)
	if c.loud && !c.dry {
		c.a.say("%s", clean(what))
	}
	return nil
}

// write replaces a file at once, so that nobody reads half of it.
func (c *changes) write(path, text string) error {
	return c.do("write   "+path, func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return renameio.WriteFile(path, []byte(text), 0o644, renameio.WithTempDir(filepath.Dir(path)))
	})
}

func (c *changes) remove(path string) error {
	return c.do("remove  "+path, func() error { return os.Remove(path) })
}

// removeEmpty removes directories that hold nothing any more.
func (c *changes) removeEmpty(dirs ...string) error {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			continue
		}
		// Not os.Remove: that would take a link to a directory of somebody's.
		err = c.do("remove  "+dir, func() error { return syscall.Rmdir(dir) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return nil
}

// systemctl runs a command of the user's service manager.
func (c *changes) systemctl(ctx context.Context, args ...string) error {
	return c.do("run     systemctl --user "+strings.Join(args, " "), func() error {
		return machine.Manage(ctx, c.a.env, args...)
	})
}
