package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/contrib"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

func newServiceUninstallCmd(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "undo install and setup; tokens, settings and the audit stay",
		Example: "  a2actl service uninstall",
		Long: `Stops and disables the units and removes every file that a2actl has written
for them, and the omp extension. Units of a package and drop-ins of yours
stay, and so do tokens, settings and the audit.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			paths, err := a.paths()
			if err != nil && paths.Config == "" {
				return err
			}
			c := &changes{a: a, loud: true}
			if err := a.removeUnits(cmd.Context(), c, paths.Runtime); err != nil {
				return err
			}
			if !keep {
				if err := a.removeExtension(c); err != nil {
					return err
				}
			}
			if a.json {
				return a.emit(a.serviceReport(cmd.Context(), c, proof{}))
			}
			if len(c.list) == 0 {
				a.say("Nothing of a2actl's is installed here.")
				return nil
			}
			a.say("Tokens and settings stay in %s, the audit in %s.", paths.ConfigDir, paths.State)
			return nil
		},
	}
	cmd.Flags().BoolVar(&keep, "keep-extension", false, "leave the omp extension in its place")
	return cmd
}

// removeUnits works without a service manager too: then it removes the files.
func (a *app) removeUnits(ctx context.Context, c *changes, runtime string) error {
	u, managed := a.lookUnits(ctx)
	if u.dir == "" {
		return managed
	}
	if managed == nil && u.socket().Found() {
		if err := a.switchOff(ctx, c, u); err != nil {
			return err
		}
	}
	before := len(c.list)
	files := append(packaging.Units("/"), packaging.Unit{Name: packaging.PortDropIn}) // only their names count
	for _, unit := range files {
		path := filepath.Join(u.dir, unit.Name)
		switch state := lookUnitFile(path, ""); state {
		case fileSame, fileStale:
			if err := c.remove(path); err != nil {
				return err
			}
		case fileForeign:
			a.say("%s was not written by a2actl, and stays.", path)
		}
	}
	// Without a manager nobody has removed what enable made.
	wants := filepath.Join(u.dir, "sockets.target.wants")
	for _, name := range unitNames {
		path := filepath.Join(wants, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSymlink {
			if err := c.remove(path); err != nil {
				return err
			}
		}
	}
	if len(c.list) > before && managed == nil {
		if err := c.systemctl(ctx, "daemon-reload"); err != nil {
			return err
		}
	}
	dirs := []string{wants}
	for _, d := range packaging.Dirs() {
		dirs = append(dirs, filepath.Join(u.dir, d))
	}
	if len(c.list) == 0 {
		return nil
	}
	dirs = append(dirs, u.dir, filepath.Dir(u.dir))
	if runtime != "" {
		dirs = append(dirs, runtime)
	}
	return c.removeEmpty(dirs...)
}

// switchOff stops and disables what is on.
func (a *app) switchOff(ctx context.Context, c *changes, u userUnits) error {
	var stop, disable, failed []string
	for _, m := range u.units {
		if m.Active != "inactive" && m.Active != "failed" {
			stop = append(stop, m.Name)
		}
		if m.Active == "failed" {
			failed = append(failed, m.Name)
		}
		if m.Enabled == "enabled" {
			disable = append(disable, m.Name)
		}
	}
	for _, cmd := range []struct {
		verb  string
		units []string
	}{{"stop", stop}, {"reset-failed", failed}, {"disable", disable}} {
		if len(cmd.units) > 0 {
			if err := c.systemctl(ctx, append([]string{cmd.verb}, cmd.units...)...); err != nil {
				return err
			}
		}
	}
	if len(disable) == 0 {
		return nil
	}
	now, err := machine.Units(ctx, a.env, packaging.HTTPSocket)
	if err == nil && now[0].Enabled == "enabled" {
		a.say("An administrator has enabled %s for every user. For you alone: systemctl --user mask %s", packaging.HTTPSocket, strings.Join(unitNames[:3], " "))
	}
	return nil
}

// removeExtension leaves a link, and what is not ours, in place.
func (a *app) removeExtension(c *changes) error {
	e, err := a.extensionOf()
	if err != nil {
		return nil // no HOME, no extension
	}
	there, err := contrib.Look(e.dir)
	if errors.Is(err, contrib.ErrForeign) || err == nil && (!there.Present || there.Linked) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the omp extension: %w", err)
	}
	err = c.do("remove  "+e.dir+" (the omp extension)", func() error { return contrib.Remove(e.dir) })
	return errors.Join(err, c.removeEmpty(filepath.Dir(e.dir), e.agentDir, filepath.Dir(e.agentDir)))
}
