package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/config"
)

// home makes a home directory with a runtime directory and returns the
// environment that names them.
func home(t *testing.T) (string, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "run"))
	return dir, map[string]string{"HOME": dir, "XDG_RUNTIME_DIR": filepath.Join(dir, "run")}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func resolve(env map[string]string, uid int, runUser string) (config.Paths, error) {
	return config.ResolveIn(func(name string) string { return env[name] }, uid, runUser)
}

func TestPathsFollowTheUsualDirectories(t *testing.T) {
	t.Parallel()
	dir, env := home(t)
	got, err := config.ResolvePaths(func(name string) string { return env[name] }, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	want := config.Paths{
		Config: dir + "/.config/a2a-bridge/config.yaml", ConfigDir: dir + "/.config/a2a-bridge",
		Agents: dir + "/.config/a2a-bridge/agents.json", Tokens: dir + "/.config/a2a-bridge/tokens.json",
		State: dir + "/.local/state/a2a-bridge", TokenUse: dir + "/.local/state/a2a-bridge/token-use.json",
		Runtime: dir + "/run/a2a-bridge", HostSocket: dir + "/run/a2a-bridge/host.sock", ControlSocket: dir + "/run/a2a-bridge/control.sock",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	env["XDG_CONFIG_HOME"], env["XDG_STATE_HOME"] = dir+"/c/", dir+"/s"
	got, err = resolve(env, os.Getuid(), "/nowhere")
	if err != nil || got.Config != dir+"/c/a2a-bridge/config.yaml" || got.State != dir+"/s/a2a-bridge" {
		t.Errorf("with XDG directories: %+v, %v", got, err)
	}

	env["A2A_BRIDGE_CONFIG"], env["A2A_BRIDGE_AGENTS"] = dir+"/other/my.yaml", dir+"/mine.json"
	var none *config.NoFileError
	if _, err := resolve(env, os.Getuid(), "/nowhere"); !errors.As(err, &none) || err.Error() != "no such file: "+dir+"/other/my.yaml" {
		t.Errorf("with a file that is not there: %v", err)
	}
	mkdir(t, dir+"/other")
	if err := os.WriteFile(dir+"/other/my.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err = resolve(env, os.Getuid(), "/nowhere")
	if err != nil || got.Config != dir+"/other/my.yaml" || got.Tokens != dir+"/other/tokens.json" || got.Agents != dir+"/mine.json" {
		t.Errorf("with A2A_BRIDGE_CONFIG and A2A_BRIDGE_AGENTS: %+v, %v", got, err)
	}
}

func TestRelativePathsAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "A2A_BRIDGE_CONFIG", "A2A_BRIDGE_AGENTS"} {
		_, env := home(t)
		env[name] = "some/where"
		_, err := resolve(env, os.Getuid(), "/nowhere")
		if err == nil || !strings.Contains(err.Error(), name+" is the relative path") {
			t.Errorf("%s=some/where: %v", name, err)
		}
	}
}

func TestRuntimeDirectoryFallsBackToTheOneOfTheUID(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /run/user")
	}
	uid := os.Getuid()
	foreign := foreignDir(t, uid)
	for _, test := range []struct {
		name, variable string
		exists, found  bool
		why            string
	}{
		{"unset, and it exists", "", true, true, ""},
		{"unset, and it does not", "", false, false, "XDG_RUNTIME_DIR is not set, and "},
		{"gone, and it exists", "/nonexistent/dir", true, true, ""},
		{"gone, and it does not", "/nonexistent/dir", false, false, "XDG_RUNTIME_DIR is /nonexistent/dir, which does not exist, and "},
		{"another user's, and it exists", foreign, true, true, ""},
		{"another user's, and it does not", foreign, false, false, "XDG_RUNTIME_DIR is " + foreign + ", which belongs to another user"},
		{"a file", "/etc/passwd", false, false, "which is not a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.variable == "" && strings.Contains(test.name, "another") {
				t.Skip("no directory of another user is at hand")
			}
			_, env := home(t)
			runUser := shortDir(t)
			env["XDG_RUNTIME_DIR"] = test.variable
			byUID := filepath.Join(runUser, strconv.Itoa(uid))
			if test.exists {
				mkdir(t, byUID)
			}
			p, err := resolve(env, uid, runUser)
			if test.found {
				if err != nil || p.Runtime != byUID+"/a2a-bridge" {
					t.Errorf("Runtime = %q, %v", p.Runtime, err)
				}
				return
			}
			var none *config.RuntimeError
			if !errors.As(err, &none) || !strings.Contains(err.Error(), test.why) || !strings.Contains(err.Error(), "\ntry: ") {
				t.Errorf("error %v, want it to say %q", err, test.why)
			}
			if p.Tokens == "" || p.State == "" || p.HostSocket != "" {
				t.Errorf("the other paths are missing, or a socket is not: %+v", p)
			}
		})
	}
}

// foreignDir returns a directory of another user, or "".
func foreignDir(t *testing.T, uid int) string {
	t.Helper()
	if uid != 0 {
		return "/"
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, -1); err != nil {
		return ""
	}
	return dir
}

func TestDirectoriesOfAnotherUserAreRefused(t *testing.T) {
	t.Parallel()
	dir, env := home(t)
	// We own the directory, so to uid+1 it is somebody else's.
	mkdir(t, dir+"/.config/a2a-bridge")
	_, err := resolve(env, os.Getuid()+1, "/nowhere")
	if err == nil || !strings.Contains(err.Error(), "/.config/a2a-bridge belongs to the user with uid") {
		t.Errorf("existing directory: %v", err)
	}

	if foreign := foreignDir(t, os.Getuid()); os.Getuid() == 0 && foreign != "" {
		env["HOME"] = foreign // sudo that keeps HOME: nothing there yet, but it is not root's
		if _, err := resolve(env, 0, "/nowhere"); err == nil || !strings.Contains(err.Error(), "without sudo") {
			t.Errorf("home of another user: %v", err)
		}
	}
}

func TestSocketPathThatIsTooLongIsNamedWithItsLength(t *testing.T) {
	t.Parallel()
	base := shortDir(t)
	const tail = len("/a2a-bridge/control.sock") // the longer of the two
	for _, length := range []int{config.MaxSocketPath, config.MaxSocketPath + 1, 200} {
		fill := length - tail - len(base) - 1
		dir := filepath.Join(base, strings.Repeat("r", fill))
		mkdir(t, dir)
		p, err := resolve(map[string]string{"HOME": base, "XDG_RUNTIME_DIR": dir}, os.Getuid(), "/nowhere")
		var long *config.SocketTooLong
		if length <= config.MaxSocketPath {
			if err != nil || len(p.ControlSocket) != length {
				t.Errorf("%d bytes: %d, %v", length, len(p.ControlSocket), err)
			}
			continue
		}
		if !errors.As(err, &long) || long.Length <= long.Limit || !strings.Contains(err.Error(), long.Path) {
			t.Errorf("%d bytes: %v", length, err)
		}
		if p.Tokens == "" || p.ControlSocket == "" {
			t.Errorf("the paths are missing: %+v", p)
		}
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cfg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
