package ctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// turnOn makes the bridge reachable for this user: unit files, unless a
// package has brought them, the port, enable, start, proof. What is right
// already is not touched.
type turnOn struct {
	a     *app
	c     *changes
	units userUnits
	port  int // wanted
	retry string
}

// do leaves everything as it was when the port is taken, and goes back to the
// old port when the bridge does not answer on the new one.
func (t *turnOn) do(ctx context.Context) (proof, error) {
	active := t.units.socket().Active == "active"
	if !active || t.port != t.units.port() {
		if err := portFree(t.port, t.retry); err != nil {
			return proof{}, err
		}
	}
	sockets, service, err := t.writeUnits()
	if err != nil {
		return proof{}, err
	}
	back, err := t.movePort()
	if err != nil {
		return proof{}, err
	}
	moved := back != nil
	if sockets || service || moved || t.units.stale() {
		if err := t.c.systemctl(ctx, "daemon-reload"); err != nil {
			return proof{}, err
		}
	}
	if err := t.seen(ctx); err != nil {
		return proof{}, err
	}
	p, err := t.start(ctx, active, sockets || moved, service)
	if err != nil && moved && !t.c.dry {
		return p, errors.Join(err, t.goBack(ctx, back, active))
	}
	return p, err
}

func (t *turnOn) start(ctx context.Context, active, sockets, service bool) (proof, error) {
	if !t.units.on() {
		if err := t.c.systemctl(ctx, "enable", "--now", packaging.HTTPSocket); err != nil {
			return proof{}, t.a.explain(ctx, t.port, err, t.retry)
		}
	}
	restart := ""
	switch {
	case active && sockets:
		restart = packaging.HTTPSocket // and with it everything
	case active && service:
		restart = packaging.Service
	}
	if restart != "" {
		if err := t.c.systemctl(ctx, "restart", restart); err != nil {
			return proof{}, t.a.explain(ctx, t.port, err, t.retry)
		}
	}
	if t.c.dry {
		return proof{}, nil
	}
	p, err := t.a.prove(ctx, t.port, t.retry)
	if err == nil && p.old() && restart == "" {
		// An upgrade has replaced the program, and the old one still runs.
		if err := t.c.systemctl(ctx, "restart", packaging.Service); err != nil {
			return p, err
		}
		p, err = t.a.prove(ctx, t.port, t.retry)
	}
	return p, err
}

// writeUnits tells whether units of sockets and of the service have changed.
func (t *turnOn) writeUnits() (sockets, service bool, err error) {
	if t.units.packaged != "" && !t.units.mine() {
		return false, false, nil
	}
	bridge, err := bridgeProgram()
	if err != nil {
		return false, false, err
	}
	type file struct{ path, text string }
	var todo []file
	for _, unit := range packaging.Units(bridge) {
		f := file{path: filepath.Join(t.units.dir, unit.Name), text: withHeader(unit.Name, unit.Text)}
		switch state := lookUnitFile(f.path, f.text); {
		case state == fileSame, state == fileMasked && unit.Name == packaging.Sandbox:
			continue
		case state == fileMasked, state == fileForeign:
			return false, false, foreignUnit(f.path, state)
		}
		todo = append(todo, f)
		sockets = sockets || strings.HasSuffix(unit.Name, ".socket")
		service = service || strings.HasPrefix(unit.Name, packaging.Service)
	}
	for _, f := range todo {
		if err := t.c.write(f.path, f.text); err != nil {
			return false, false, err
		}
	}
	return sockets, service, nil
}

// movePort writes the drop-in for the wanted port, or removes it when the port
// is the usual one. It returns how to undo that; nil when nothing was to do.
func (t *turnOn) movePort() (undo func() error, err error) {
	if t.port == t.units.port() {
		return nil, nil
	}
	path := filepath.Join(t.units.dir, packaging.PortDropIn)
	text := withHeader(packaging.PortDropIn, packaging.PortText(t.port))
	state := lookUnitFile(path, text)
	switch {
	case state == fileForeign, state == fileMasked:
		return nil, foreignUnit(path, fileForeign)
	case t.port == packaging.Port && state == fileMissing, state == fileSame:
		return nil, fmt.Errorf("another file than %s decides on the port %d\ntry: systemctl --user cat %s", path, t.units.port(), packaging.HTTPSocket)
	}
	before, err := os.ReadFile(path)
	if err != nil && state != fileMissing {
		return nil, err
	}
	undo = func() error {
		if state == fileMissing {
			return errors.Join(t.c.remove(path), t.c.removeEmpty(filepath.Dir(path)))
		}
		return t.c.write(path, string(before))
	}
	if t.port == packaging.Port {
		return undo, errors.Join(t.c.remove(path), t.c.removeEmpty(filepath.Dir(path)))
	}
	return undo, t.c.write(path, text)
}

// goBack undoes a move to a port on which the bridge did not answer.
func (t *turnOn) goBack(ctx context.Context, undo func() error, active bool) error {
	verb := "stop"
	if active {
		verb = "restart"
	}
	err := errors.Join(undo(), t.c.systemctl(ctx, "daemon-reload"), t.c.systemctl(ctx, verb, packaging.HTTPSocket))
	if err != nil {
		return fmt.Errorf("and the port could not be moved back: %w", err)
	}
	return fmt.Errorf("the port is %d again", t.units.port())
}

// seen makes sure that the manager reads what we have written: its
// XDG_CONFIG_HOME may be another than the one of this shell.
func (t *turnOn) seen(ctx context.Context) error {
	if t.c.dry {
		return nil
	}
	now, err := t.a.lookUnits(ctx)
	if err != nil {
		return err
	}
	for _, unit := range now.units {
		switch {
		case unit.Load == "masked":
			return foreignUnit(unit.Name, fileMasked)
		case !unit.Found():
			return withTry(fmt.Errorf("your service manager does not look for units in %s", t.units.dir), "unset XDG_CONFIG_HOME, then again")
		case unit.Load != "loaded":
			return withTry(fmt.Errorf("your service manager cannot read %s: %s", unit.Name, clean(unit.Load)), "systemctl --user status "+unit.Name)
		}
	}
	return nil
}
