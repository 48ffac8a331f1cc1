package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// UnitInstalled reports whether systemd runs this machine and a user unit of
// this name is among the files that it reads.
func UnitInstalled(unit string, env func(string) string) bool {
	if _, err := os.Stat(booted); err != nil {
		return false
	}
	return unitFile(unit, env) != ""
}

// unitFile returns the file of a user unit, or "".
func unitFile(unit string, env func(string) string) string {
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
	for _, dir := range dirs {
		path := filepath.Join(dir, unit)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // a masked one is a link to /dev/null
			return path
		}
	}
	return ""
}

// Unit is how a unit of the user's service manager is.
type Unit struct {
	Name    string
	Load    string // loaded, not-found, masked, bad-setting, …
	Active  string // active, inactive, failed, …
	Sub     string // listening, running, dead, …
	Enabled string // enabled, disabled, static, …; empty when there is no file
	Result  string // success, or why it failed
}

// Found reports whether there is such a unit at all.
func (u Unit) Found() bool { return u.Load != "" && u.Load != "not-found" }

// Units asks the user's service manager about units, in this order. An error
// means that there is none to ask, and says why.
func Units(ctx context.Context, env func(string) string, names ...string) ([]Unit, error) {
	program, ok := lookPath("systemctl", append(filepath.SplitList(env("PATH")), "/usr/bin", "/bin"))
	if !ok {
		return nil, errors.New("there is no systemctl here")
	}
	args := append([]string{"--user", "--no-pager", "show", "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Result", "--"}, names...)
	out, err := run(ctx, managerEnv(env), program, args...)
	if err != nil {
		return nil, fmt.Errorf("the user's service manager cannot be asked: %w", err)
	}
	units := parseUnits(out)
	if len(units) != len(names) {
		return nil, fmt.Errorf("systemctl answered about %d units instead of %d", len(units), len(names))
	}
	return units, nil
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
			}
		}
		if u.Name != "" {
			units = append(units, u)
		}
	}
	return units
}
