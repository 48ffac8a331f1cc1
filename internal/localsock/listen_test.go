package localsock_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
)

// sockDir returns a directory whose path leaves room for a socket's name.
func sockDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ls")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func config(t *testing.T) localsock.Config {
	t.Helper()
	run := filepath.Join(sockDir(t), "a2a-bridge")
	return localsock.Config{HTTPAddr: "127.0.0.1:0", HostPath: filepath.Join(run, "host.sock"), ControlPath: filepath.Join(run, "control.sock")}
}

func listen(t *testing.T, cfg localsock.Config) *localsock.Listeners {
	t.Helper()
	l, err := localsock.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestSocketsBoundHereArePrivateAndGoWithTheirListener(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	l := listen(t, cfg)
	if l.Activated || len(l.Problems) > 0 || len(l.HTTP) != 1 || len(l.Host) != 1 || len(l.Control) != 1 {
		t.Fatalf("Listen = %+v", l)
	}
	if got := mode(t, filepath.Dir(cfg.HostPath)); got != 0o700 {
		t.Errorf("directory has mode %o", got)
	}
	for _, path := range []string{cfg.HostPath, cfg.ControlPath} {
		if got := mode(t, path); got != 0o600 {
			t.Errorf("%s has mode %o", path, got)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if exists(cfg.HostPath) || exists(cfg.ControlPath) {
		t.Error("a socket file is left after Close")
	}
}

func TestDirectoryOfTheSocketsIsClosedToOthersOrRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	dir := filepath.Dir(cfg.HostPath)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_ = listen(t, cfg).Close()
	if got := mode(t, dir); got != 0o700 {
		t.Errorf("directory has mode %o", got)
	}
	if err := os.Chmod(dir, 0o1777); err != nil { // as /tmp: not to be closed
		t.Fatal(err)
	}
	if _, err := localsock.Listen(cfg); err == nil || !strings.Contains(err.Error(), "open to other users") {
		t.Errorf("world-writable directory: %v", err)
	}
	if got := mode(t, dir); got != 0o777 {
		t.Errorf("directory has mode %o now", got)
	}
}

func TestStaleSocketIsReplacedAndALiveOneIsNot(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	if err := os.Mkdir(filepath.Dir(cfg.HostPath), 0o700); err != nil {
		t.Fatal(err)
	}
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: cfg.HostPath, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	var bind *localsock.BindError
	if _, err := localsock.Listen(cfg); !errors.Is(err, localsock.ErrLive) || !errors.As(err, &bind) || bind.Addr != cfg.HostPath {
		t.Errorf("live socket: %v", err)
	}
	if c, err := net.Dial("unix", cfg.HostPath); err != nil {
		t.Errorf("the live socket is gone: %v", err)
	} else {
		_ = c.Close()
	}
	_ = old.Close() // now it is stale, as after a crash
	if !exists(cfg.HostPath) {
		t.Fatal("the test lost its stale socket")
	}
	for deadline := time.Now().Add(5 * time.Second); ; { // a child that another test forks holds a copy until it execs
		l, err := localsock.Listen(cfg)
		if err == nil {
			_ = l.Close()
			return
		}
		if !errors.Is(err, localsock.ErrLive) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestSocketWithAFullBacklogIsAlive(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	if err := os.Mkdir(filepath.Dir(cfg.HostPath), 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: cfg.HostPath}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 4 { // more than the backlog takes
		c, err := net.DialTimeout("unix", cfg.HostPath, 50*time.Millisecond)
		if err != nil {
			break
		}
		defer func() { _ = c.Close() }()
	}
	if _, err := localsock.Listen(cfg); !errors.Is(err, localsock.ErrLive) {
		t.Errorf("Listen = %v", err)
	}
	if !exists(cfg.HostPath) {
		t.Error("a live socket was removed")
	}
}

func TestFileInTheWayIsNotRemoved(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	if err := os.MkdirAll(filepath.Dir(cfg.ControlPath), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.ControlPath, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := localsock.Listen(cfg); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("Listen = %v", err)
	}
	if got, _ := os.ReadFile(cfg.ControlPath); string(got) != "precious" {
		t.Errorf("the file holds %q now", got)
	}
	if exists(cfg.HostPath) {
		t.Error("the first socket is left after the second failed")
	}
}

func TestCloseLeavesTheSocketOfASuccessor(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	l := listen(t, cfg)
	if err := os.Remove(cfg.HostPath); err != nil {
		t.Fatal(err)
	}
	successor, err := net.Listen("unix", cfg.HostPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = successor.Close() }()
	_ = l.Close()
	if !exists(cfg.HostPath) {
		t.Error("Close removed a socket that somebody else had bound")
	}
}

func TestTakenPortIsToldAndTouchesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cfg := config(t)
	cfg.HTTPAddr = taken.Addr().String()
	var bind *localsock.BindError
	_, err = localsock.Listen(cfg)
	if !errors.Is(err, syscall.EADDRINUSE) || !errors.As(err, &bind) || bind.Name != "http" {
		t.Errorf("Listen = %v", err)
	}
	if exists(filepath.Dir(cfg.HostPath)) {
		t.Error("the directory of the sockets was made all the same")
	}
}

// activated is what the child process of the tests below reports.
type activated struct {
	Err      string
	Names    map[string]int // listeners by purpose
	Problems []string
	Active   bool
	Left     []string // LISTEN_* variables afterwards
}

const childVariable = "LOCALSOCK_TEST_CHILD"

// TestMain is also the main of the child process: it listens on what it was
// given, reports, and ends.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		m.Run() // its code becomes ours
		return
	}
	if os.Getenv("LISTEN_PID") == "self" {
		_ = os.Setenv("LISTEN_PID", fmt.Sprint(os.Getpid()))
	}
	dir, err := os.MkdirTemp("/tmp", "ls")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := localsock.Listen(localsock.Config{HTTPAddr: "127.0.0.1:0", HostPath: dir + "/r/host.sock", ControlPath: dir + "/r/control.sock"})
	var a activated
	if err != nil {
		a.Err = err.Error()
	} else {
		a.Active = l.Activated
		a.Names = map[string]int{"http": len(l.HTTP), "host": len(l.Host), "control": len(l.Control)}
		for _, p := range l.Problems {
			a.Problems = append(a.Problems, p.Error())
		}
		_ = l.Close()
	}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "LISTEN_") {
			a.Left = append(a.Left, e)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(a)
}

// activate starts a child with sockets as descriptors 3, 4, ….
func activate(t *testing.T, pid, names string, files ...*os.File) activated {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "GORACE=atexit_sleep_ms=0", "LISTEN_PID="+pid, fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES="+names)
	cmd.ExtraFiles = files
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, errOut.String())
	}
	var a activated
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("child said %q: %v", out, err)
	}
	if len(a.Left) > 0 {
		t.Errorf("children would inherit %v", a.Left)
	}
	return a
}

func tcpFile(t *testing.T) *os.File {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return fileOf(t, ln)
}

func unixFile(t *testing.T, path string) *os.File {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	return fileOf(t, ln)
}

func fileOf(t *testing.T, ln net.Listener) *os.File {
	t.Helper()
	f, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close(); _ = ln.Close() })
	return f
}

func TestSystemdSocketsAreTakenByName(t *testing.T) {
	t.Parallel()
	host := filepath.Join(sockDir(t), "host.sock")
	files := []*os.File{unixFile(t, host), tcpFile(t), unixFile(t, filepath.Join(sockDir(t), "c")), tcpFile(t)}
	got := activate(t, "self", "host:http:control:http", files...)
	want := activated{Active: true, Names: map[string]int{"http": 2, "host": 1, "control": 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !exists(host) {
		t.Error("the daemon removed a socket file of systemd's")
	}
}

func TestSocketThatSystemdDidNotPassIsAProblemOnly(t *testing.T) {
	t.Parallel()
	got := activate(t, "self", "host", unixFile(t, filepath.Join(sockDir(t), "h")))
	want := activated{Active: true, Names: map[string]int{"http": 0, "host": 1, "control": 0}, Problems: []string{
		"systemd passed no http socket: a2a-bridge.socket is not active\ntry: systemctl --user restart a2a-bridge.socket",
		"systemd passed no control socket: a2a-bridge-control.socket is not active\ntry: systemctl --user restart a2a-bridge-control.socket",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWrongDescriptorsAreStartUpErrors(t *testing.T) {
	t.Parallel()
	plain, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	connected := os.NewFile(uintptr(pair[0]), "pair")
	defer func() { _, _ = connected.Close(), syscall.Close(pair[1]) }()

	unix := unixFile(t, filepath.Join(sockDir(t), "h"))
	for _, test := range []struct {
		name, names string
		files       []*os.File
		want        string
	}{
		{"unknown name", "http:web", []*os.File{tcpFile(t), tcpFile(t)}, `socket 2 of 2 was passed with the unknown name "web"`},
		{"no name", "", []*os.File{tcpFile(t)}, `socket 1 of 1 was passed with the unknown name "LISTEN_FD_3"`},
		{"fewer names than sockets", "http", []*os.File{tcpFile(t), tcpFile(t)}, `socket 2 of 2 was passed with the unknown name "LISTEN_FD_4"`},
		{"name of the unit", "a2a-bridge.socket", []*os.File{tcpFile(t)}, `unknown name "a2a-bridge.socket"`},
		{"a file", "http", []*os.File{plain}, `socket 1 of 1, named "http": is not a listening socket`},
		{"a connection", "host", []*os.File{connected}, `named "host": is not a listening socket`},
		{"a port for hosts", "host", []*os.File{tcpFile(t)}, "is a tcp socket; it must be a unix socket"},
		{"a unix socket for HTTP", "http", []*os.File{unix}, "is a unix socket; it must be a tcp socket"},
		{"none", "", nil, `LISTEN_FDS is "0"`},
	} {
		if got := activate(t, "self", test.names, test.files...); !strings.Contains(got.Err, test.want) {
			t.Errorf("%s: %+v, want the error %s", test.name, got, test.want)
		}
	}
}

func TestSocketsMeantForAnotherProcessAreLeftAlone(t *testing.T) {
	t.Parallel()
	got := activate(t, "1", "http", tcpFile(t))
	if got.Err != "" || got.Active || len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "sockets were passed to process 1, not to this one") {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(map[string]int{"http": 1, "host": 1, "control": 1}, got.Names); diff != "" {
		t.Errorf("not bound here (-want +got):\n%s", diff)
	}
}

func TestRealSystemdSocketActivate(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("systemd-socket-activate")
	bridgetest.Require(t, err == nil, "systemd-socket-activate is not installed")
	dir := sockDir(t)
	port := freePort(t)
	cmd := exec.Command(program, "-E", childVariable+"=1", "-E", "GORACE=atexit_sleep_ms=0", "-l", port, "-l", dir+"/h", "-l", dir+"/c", "--fdname=http:host:control", os.Args[0])
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	for deadline := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp", port) // it starts the child at the first connection
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var got activated
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("child said %q: %v", out.String(), err)
	}
	if diff := cmp.Diff(activated{Active: true, Names: map[string]int{"http": 1, "host": 1, "control": 1}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
