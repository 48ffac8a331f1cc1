package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Paths says where everything is.
type Paths struct {
	Config    string // config.yaml; the next two are beside it
	ConfigDir string
	Agents    string // agents.json, or what A2A_BRIDGE_AGENTS names
	Tokens    string // tokens.json

	State    string // directory of what the daemon writes: ledger, catalogue, keys
	TokenUse string // last use of tokens

	Runtime       string // directory of the sockets
	HostSocket    string
	ControlSocket string
}

const dirName = "a2a-bridge"

// RuntimeError says why there is no place for the sockets. The other paths
// are resolved all the same.
type RuntimeError struct {
	Why  string
	Next string // what to type
}

func (e *RuntimeError) Error() string { return e.Why + "\ntry: " + e.Next }

// SocketTooLong says that a socket's path cannot be an address. All paths are
// resolved all the same.
type SocketTooLong struct {
	Path   string
	Length int
	Limit  int
}

func (e *SocketTooLong) Error() string {
	return fmt.Sprintf("the socket path %s has %d bytes; the limit is %d\ntry: a shorter XDG_RUNTIME_DIR", e.Path, e.Length, e.Limit)
}

// NoFileError says that a configuration file which was named by hand is not
// there: going on without it would ignore whoever named it.
type NoFileError struct{ Path string }

func (e *NoFileError) Error() string { return "no such file: " + e.Path }

// ResolvePaths applies the one rule of where things are; daemon and control
// program share it, and it depends on nothing but these variables:
//
//   - HOME, XDG_CONFIG_HOME, XDG_STATE_HOME, with the usual defaults;
//   - A2A_BRIDGE_CONFIG, which selects another file that must exist, and
//     A2A_BRIDGE_AGENTS, which selects another one that need not;
//   - XDG_RUNTIME_DIR if it is a directory of ours, else /run/user/UID if that
//     is one (on macOS: run in the state directory).
//
// Relative values are refused, and so are directories of other users. With a
// *RuntimeError or *SocketTooLong the other paths are valid; with any other
// error none is.
func ResolvePaths(env func(string) string, uid int) (Paths, error) {
	return resolve(env, uid, "/run/user")
}

func resolve(env func(string) string, uid int, runUser string) (Paths, error) {
	base := func(variable string, fallback ...string) (string, error) {
		if dir := env(variable); dir != "" {
			return absolute(variable, dir)
		}
		home, err := homeDir(env, uid)
		return filepath.Join(append([]string{home}, fallback...)...), err
	}

	var p Paths
	if file := env("A2A_BRIDGE_CONFIG"); file != "" {
		file, err := absolute("A2A_BRIDGE_CONFIG", file)
		if err != nil {
			return Paths{}, err
		}
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return Paths{}, &NoFileError{Path: file}
		}
		p.Config, p.ConfigDir = file, filepath.Dir(file)
	} else {
		dir, err := base("XDG_CONFIG_HOME", ".config")
		if err != nil {
			return Paths{}, err
		}
		p.ConfigDir = filepath.Join(dir, dirName)
		p.Config = filepath.Join(p.ConfigDir, "config.yaml")
	}
	p.Tokens = filepath.Join(p.ConfigDir, "tokens.json")
	p.Agents = filepath.Join(p.ConfigDir, "agents.json")
	if file := env("A2A_BRIDGE_AGENTS"); file != "" {
		file, err := absolute("A2A_BRIDGE_AGENTS", file)
		if err != nil {
			return Paths{}, err
		}
		p.Agents = file
	}
	state, err := base("XDG_STATE_HOME", ".local", "state")
	if err != nil {
		return Paths{}, err
	}
	p.State = filepath.Join(state, dirName)
	p.TokenUse = filepath.Join(p.State, "token-use.json")
	for _, dir := range []string{p.ConfigDir, p.State} {
		if err := notForeign(dir, uid); err != nil {
			return Paths{}, err
		}
	}

	runtime, err := runtimeDir(env, uid, runUser, p.State)
	if err != nil {
		return p, err
	}
	p.Runtime = runtime
	p.HostSocket = filepath.Join(runtime, "host.sock")
	p.ControlSocket = filepath.Join(runtime, "control.sock")
	for _, s := range []string{p.HostSocket, p.ControlSocket} {
		if len(s) > maxSocketPath {
			return p, &SocketTooLong{Path: s, Length: len(s), Limit: maxSocketPath}
		}
	}
	return p, nil
}

func absolute(variable, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is the relative path %q, which would mean another place for each program\ntry: an absolute path", variable, path)
	}
	return filepath.Clean(path), nil
}

func homeDir(env func(string) string, uid int) (string, error) {
	if home := env("HOME"); home != "" {
		return absolute("HOME", home)
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return "", errors.New("HOME is not set: there is no place for settings\ntry: export HOME=…")
	}
	return u.HomeDir, nil
}

// overflowUID stands for every other user inside a user namespace, which the
// unit's sandbox is: there even / belongs to it.
const overflowUID = 65534

// notForeign refuses a directory of another user. For a directory that does
// not exist yet, its nearest parent counts, where root (the owner of /) is
// fine: what we may not write there fails by itself.
func notForeign(dir string, uid int) error {
	for at := dir; ; at = filepath.Dir(at) {
		owner, err := ownerOf(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", at, err)
		}
		if owner == uid || (at != dir && (owner == 0 || owner == overflowUID)) {
			return nil
		}
		return fmt.Errorf("%s belongs to the user with uid %d, not to you (uid %d)\ntry: the command without sudo, or with your own HOME", at, owner, uid)
	}
}

func ownerOf(path string) (int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("no owner known")
	}
	return int(stat.Uid), nil
}

// runtimeDir finds the directory for sockets.
func runtimeDir(env func(string) string, uid int, runUser, state string) (string, error) {
	named := env("XDG_RUNTIME_DIR")
	why := "XDG_RUNTIME_DIR is not set"
	if named != "" {
		if !filepath.IsAbs(named) {
			return "", &RuntimeError{Why: fmt.Sprintf("XDG_RUNTIME_DIR is the relative path %q", named), Next: "an absolute path"}
		}
		bad := notOurs(named, uid)
		if bad == "" {
			return filepath.Join(named, dirName), nil
		}
		why = "XDG_RUNTIME_DIR is " + named + ", which " + bad
	}
	if runtimeInState {
		return filepath.Join(state, "run"), nil
	}
	byUID := filepath.Join(runUser, strconv.Itoa(uid))
	bad := notOurs(byUID, uid)
	if bad == "" {
		return filepath.Join(byUID, dirName), nil
	}
	if byUID != filepath.Clean(named) {
		why += ", and " + byUID + " " + bad
	}
	return "", &RuntimeError{
		Why:  "there is no directory for the sockets: " + why,
		Next: "log in by ssh or at the console (not by su or sudo); or, for daemon, omp and a2actl alike: export XDG_RUNTIME_DIR=$HOME/.local/run && mkdir -pm700 \"$XDG_RUNTIME_DIR\"",
	}
}

// notOurs says in a few words why a directory cannot be used; "" when it can.
func notOurs(dir string, uid int) string {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case err != nil:
		return "cannot be looked at"
	case !info.IsDir():
		return "is not a directory"
	}
	if owner, err := ownerOf(dir); err != nil || owner != uid {
		return fmt.Sprintf("belongs to another user (uid %d)", owner)
	}
	return ""
}
