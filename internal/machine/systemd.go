package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Answer is yes, no, or unknown.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// booted is where systemd says that it runs this machine (sd_booted).
const booted = "/run/systemd/system"

// Linger says whether a user's services go on after the last logout.
func Linger(user string) Answer {
	return lingerIn(booted, "/var/lib/systemd/linger", user)
}

func lingerIn(booted, dir, user string) Answer {
	if user == "" || strings.ContainsRune(user, filepath.Separator) {
		return Unknown
	}
	if _, err := os.Stat(booted); err != nil {
		return Unknown // whatever starts services here, it is not systemd
	}
	switch _, err := os.Stat(filepath.Join(dir, user)); {
	case err == nil:
		return Yes
	case errors.Is(err, os.ErrNotExist):
		return No
	}
	return Unknown
}

// Booted reports whether systemd runs this machine.
func Booted() bool {
	_, err := os.Stat(booted)
	return err == nil
}

// UnitInstalled reports whether systemd runs this machine and a user unit of
// this name is among the files that it reads.
func UnitInstalled(unit string, env func(string) string) bool {
	return Booted() && len(UnitFiles(unit, env)) > 0
}

// UnitFiles returns the files of a user unit; the first one counts.
func UnitFiles(unit string, env func(string) string) []string {
	var dirs []string
	for _, base := range []struct{ variable, fallback string }{{"XDG_CONFIG_HOME", ".config"}, {"XDG_DATA_HOME", ".local/share"}} {
		switch dir, home := env(base.variable), env("HOME"); {
		case dir != "":
			dirs = append(dirs, filepath.Join(dir, "systemd/user"))
		case home != "":
			dirs = append(dirs, filepath.Join(home, base.fallback, "systemd/user"))
		}
	}
	dirs = append(dirs, "/etc/systemd/user", "/run/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user", "/lib/systemd/user")
	var found []string
	for _, dir := range dirs {
		path := filepath.Join(dir, unit)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // a masked one is a link to /dev/null
			found = append(found, path)
		}
	}
	return found
}

// Unit is how a unit of the user's service manager is.
type Unit struct {
	Name    string
	Load    string // loaded, not-found, masked, bad-setting, …
	Active  string // active, inactive, failed, …
	Sub     string // listening, running, dead, …
	Enabled string // enabled, disabled, static, …; empty when there is no file
	Result  string // success, or why it failed

	File       string   // that it was read from
	Listen     []string // addresses and paths of a socket
	Reload     bool     // its files have changed since they were read
	MainPID    int      // of a service that runs
	MainStatus int      // how its process ended last
}

// Found reports whether there is such a unit at all.
func (u Unit) Found() bool { return u.Load != "" && u.Load != "not-found" }

// Units asks the user's service manager about units, in this order. An error
// means that there is none to ask, and says why.
func Units(ctx context.Context, env func(string) string, names ...string) ([]Unit, error) {
	out, err := systemctl(ctx, runLimit, env, append([]string{"show", "--property=" + unitProperties, "--"}, names...)...)
	if err != nil {
		return nil, fmt.Errorf("the user's service manager cannot be asked: %w", err)
	}
	units := parseUnits(out)
	if len(units) != len(names) {
		return nil, fmt.Errorf("systemctl answered about %d units instead of %d", len(units), len(names))
	}
	return units, nil
}

const unitProperties = "Id,LoadState,ActiveState,SubState,UnitFileState,Result,FragmentPath,Listen,NeedDaemonReload,MainPID,ExecMainStatus"

// manageLimit bounds a change of units: a stop waits up to 15 s for the
// service, and a start as long as that again on a busy machine.
const manageLimit = 45 * time.Second

// Manage tells the user's service manager to do something, and waits until it
// is done. It is the one function here that changes anything.
func Manage(ctx context.Context, env func(string) string, args ...string) error {
	_, err := systemctl(ctx, manageLimit, env, append([]string{"--quiet"}, args...)...)
	return err
}

func systemctl(ctx context.Context, limit time.Duration, env func(string) string, args ...string) (string, error) {
	program, ok := lookPath("systemctl", append(filepath.SplitList(env("PATH")), "/usr/bin", "/bin"))
	if !ok {
		return "", errors.New("there is no systemctl here")
	}
	return runFor(ctx, limit, managerEnv(env), program, append([]string{"--user", "--no-pager"}, args...)...)
}

// managerEnv is what systemctl needs to find the manager, also in a shell
// that does not have it.
func managerEnv(env func(string) string) []string {
	vars := []string{"LC_ALL=C", "SYSTEMD_COLORS=0"}
	for _, name := range []string{"HOME", "DBUS_SESSION_BUS_ADDRESS"} {
		if value := env(name); value != "" {
			vars = append(vars, name+"="+value)
		}
	}
	dir := env("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join("/run/user", strconv.Itoa(os.Geteuid()))
	}
	return append(vars, "XDG_RUNTIME_DIR="+dir)
}

// parseUnits reads the blocks of systemctl show.
func parseUnits(out string) []Unit {
	var units []Unit
	for block := range strings.SplitSeq(strings.TrimSpace(out), "\n\n") {
		var u Unit
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, "=")
			switch name {
			case "Id":
				u.Name = value
			case "LoadState":
				u.Load = value
			case "ActiveState":
				u.Active = value
			case "SubState":
				u.Sub = value
			case "UnitFileState":
				u.Enabled = value
			case "Result":
				u.Result = value
			case "FragmentPath":
				u.File = value
			case "Listen": // one line each: 127.0.0.1:7717 (Stream)
				address, _, _ := strings.Cut(value, " (")
				u.Listen = append(u.Listen, address)
			case "NeedDaemonReload":
				u.Reload = value == "yes"
			case "MainPID":
				u.MainPID, _ = strconv.Atoi(value)
			case "ExecMainStatus":
				u.MainStatus, _ = strconv.Atoi(value)
			}
		}
		if u.Name != "" {
			units = append(units, u)
		}
	}
	return units
}
