package localsock_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
)

func TestOnlyOurUIDMayConnect(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("unix", filepath.Join(sockDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := localsock.SameUser(c); err != nil {
		t.Errorf("SameUser = %v", err)
	}
	if err := localsock.SameUserAs(c, os.Geteuid()+1); err == nil || !strings.Contains(err.Error(), "refused a connection of uid") {
		t.Errorf("to another uid we are a stranger: %v", err)
	}
}

func TestConnectionThatCannotSayWhoItIsIsRefused(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if err := localsock.SameUser(client); err == nil {
		t.Error("a TCP connection passed")
	}
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	if err := localsock.SameUser(a); err == nil {
		t.Error("a pipe passed")
	}
}

func TestListenerClosesConnectionsOfAnotherUser(t *testing.T) {
	t.Parallel()
	perl, err := exec.LookPath("perl")
	bridgetest.Require(t, os.Geteuid() == 0 && err == nil, "this needs root to become another user, and perl to connect")
	dir := sockDir(t)
	path := filepath.Join(dir, "s")
	inner, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inner.Close() }()
	// As if the file modes had failed us.
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	refused := make(chan error, 1)
	ln := &localsock.SameUserListener{Listener: inner, Refused: func(err error) { refused <- err }}
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := ln.Accept(); err == nil {
			accepted <- c
		}
	}()

	// The stranger prints what it can read: nothing, since we hang up.
	stranger := exec.Command(perl, "-MIO::Socket::UNIX", "-e",
		`$s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "connect: $!"; print <$s>; print "closed"`, path)
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := stranger.CombinedOutput()
	if err != nil || string(out) != "closed" {
		t.Fatalf("stranger: %q, %v", out, err)
	}
	if err := <-refused; !strings.Contains(err.Error(), "uid 12345") {
		t.Errorf("Refused(%v)", err)
	}
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_ = (<-accepted).Close() // ours still gets in
}
