package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/internal/machine"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

// unitHeader begins every file that we write among the user's units. Only
// files that begin so are replaced or removed.
const unitHeader = "# Written by a2actl, which may replace or remove it."

const unitAdvice = " Changes of yours belong into a drop-in:\n# systemctl --user edit "

// withHeader is the text of a file as it is installed.
func withHeader(name, text string) string {
	unit, _, _ := strings.Cut(name, ".d/")
	return unitHeader + unitAdvice + unit + "\n" + text
}

// unitNames are all of our units, the one that carries the others first.
var unitNames = []string{packaging.HTTPSocket, packaging.HostSocket, packaging.ControlSocket, packaging.Service}

// userUnits are our units as this user has them.
type userUnits struct {
	dir      string         // where a2actl writes units
	units    []machine.Unit // in the order of unitNames; nil without a manager
	packaged string         // where a package has put units; empty: nowhere
}

// lookUnits asks the service manager. Without one, the error says what to do
// instead, and dir and packaged are valid all the same.
func (a *app) lookUnits(ctx context.Context) (userUnits, error) {
	var u userUnits
	var err error
	if u.dir, err = a.unitDir(); err != nil {
		return u, err
	}
	files := machine.UnitFiles(packaging.HTTPSocket, a.env)
	if !machine.Booted() {
		return u, withTry(errors.New("there is no systemd for user services on this machine"), "a2a-bridge serve")
	}
	if u.units, err = machine.Units(ctx, a.env, unitNames...); err != nil {
		return u, withTry(err, "log in by ssh or at the console (not by su or sudo), or do without: a2a-bridge serve")
	}
	files = append(files, u.socket().File) // it may look in more places than we know
	if i := slices.IndexFunc(files, func(f string) bool { return f != "" && !sameDir(filepath.Dir(f), u.dir) }); i >= 0 {
		u.packaged = filepath.Dir(files[i])
	}
	return u, nil
}

func sameDir(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// unitDir is where the user's own units are.
func (a *app) unitDir() (string, error) {
	base := a.env("XDG_CONFIG_HOME")
	if base == "" {
		home, err := a.home()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(base) {
		return "", withTry(fmt.Errorf("XDG_CONFIG_HOME is the relative path %q", base), "an absolute path")
	}
	return filepath.Join(base, "systemd", "user"), nil
}

func (a *app) home() (string, error) {
	if home := a.env("HOME"); home != "" {
		return home, nil
	}
	me, err := user.Current()
	if err != nil || me.HomeDir == "" {
		return "", withTry(errors.New("HOME is not set"), "export HOME=…")
	}
	return me.HomeDir, nil
}

// user is who runs this; ssh gives USER, little else does.
func (a *app) user() string {
	if name := a.env("USER"); name != "" {
		return name
	}
	if me, err := user.Current(); err == nil {
		return me.Username
	}
	return ""
}

func (u userUnits) unit(name string) machine.Unit {
	if i := slices.Index(unitNames, name); i < len(u.units) {
		return u.units[i]
	}
	return machine.Unit{}
}

func (u userUnits) socket() machine.Unit { return u.unit(packaging.HTTPSocket) }

// on reports whether every socket is enabled and open.
func (u userUnits) on() bool {
	for _, name := range []string{packaging.HTTPSocket, packaging.HostSocket, packaging.ControlSocket} {
		if s := u.unit(name); s.Active != "active" || s.Enabled != "enabled" {
			return false
		}
	}
	return true
}

// stale reports whether the manager should read files again.
func (u userUnits) stale() bool {
	return slices.ContainsFunc(u.units, func(m machine.Unit) bool { return m.Reload })
}

// mine reports whether the user's own directory holds our units.
func (u userUnits) mine() bool {
	state := lookUnitFile(filepath.Join(u.dir, packaging.HTTPSocket), "")
	return state == fileStale
}

var listenLine = regexp.MustCompile(`(?m)^ListenStream=` + regexp.QuoteMeta(packaging.Host) + `:(\d+)$`)

// port is where the socket listens, or would.
func (u userUnits) port() int {
	for _, l := range u.socket().Listen {
		if digits, ok := strings.CutPrefix(l, packaging.Host+":"); ok {
			if port, err := strconv.Atoi(digits); err == nil {
				return port
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(u.dir, packaging.PortDropIn)); err == nil {
		if m := listenLine.FindSubmatch(text); m != nil {
			port, _ := strconv.Atoi(string(m[1]))
			return port
		}
	}
	return packaging.Port
}

// fileState is what is found at the place of a file of ours.
type fileState int

const (
	fileMissing fileState = iota
	fileSame              // ours, with this text
	fileStale             // ours, with another
	fileMasked            // the user has switched it off
	fileForeign
)

func lookUnitFile(path, text string) fileState {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fileMissing
	case err != nil:
		return fileForeign
	case info.Mode().Type() == fs.ModeSymlink:
		if target, err := os.Readlink(path); err == nil && target == os.DevNull {
			return fileMasked
		}
		return fileForeign
	case !info.Mode().IsRegular() || info.Size() > maxUnitFile:
		return fileForeign
	}
	there, err := os.ReadFile(path)
	switch {
	case err != nil || !strings.HasPrefix(string(there), unitHeader):
		return fileForeign
	case string(there) == text:
		return fileSame
	}
	return fileStale
}

// maxUnitFile is more than any of ours will ever have.
const maxUnitFile = 64 << 10

// foreignUnit puts a file that is not ours into words.
func foreignUnit(path string, state fileState) error {
	f := &failure{err: fmt.Errorf("%s was not written by a2actl, and is left alone", path), try: "move it away, then again", code: exitRefused}
	if state == fileMasked {
		f.err = fmt.Errorf("%s is masked: you have switched this unit off", path)
		f.try = "systemctl --user unmask " + filepath.Base(path)
	}
	return f
}

// bridgeProgram is the a2a-bridge beside this a2actl, by its real path: that
// stays the same whatever PATH the service manager has.
func bridgeProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("find the path of a2actl: %w", err)
	}
	path, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(self), "a2a-bridge"))
	if err != nil {
		return "", withTry(fmt.Errorf("there is no a2a-bridge beside %s", self), "put both programs into one directory that lasts, such as ~/.local/bin")
	}
	if !packaging.CanStart(path) {
		return "", withTry(fmt.Errorf("systemd starts no program with quotes, backslashes or control characters in its path, as in %q", path), "put both programs into another directory, such as ~/.local/bin")
	}
	for _, private := range []string{"/tmp", "/var/tmp"} {
		if strings.HasPrefix(path, private+"/") {
			return "", withTry(fmt.Errorf("%s lies in %s, of which the service has its own", path, private), "put both programs into a directory that lasts, such as ~/.local/bin")
		}
	}
	return path, nil
}
