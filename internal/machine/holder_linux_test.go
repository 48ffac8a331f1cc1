package machine_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
)

func TestOurOwnHolderOfAPortIsNamed(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skipf("cannot listen on %s: %v", addr, err)
		}
		port := ln.Addr().(*net.TCPAddr).Port
		h, ok := machine.PortHolder(fmt.Sprintf("127.0.0.1:%d", port))
		if !ok || h.PID != os.Getpid() || h.UID != os.Geteuid() || h.Name == "" || !strings.HasPrefix(filepath.Base(os.Args[0]), h.Name) {
			t.Errorf("%s: %+v, %v", addr, h, ok)
		}
		if want := fmt.Sprintf("%s (pid %d, yours): ", h.Name, os.Getpid()); !strings.HasPrefix(h.String(), want) {
			t.Errorf("%s: says %q, want %q…", addr, h, want)
		}
		_ = ln.Close()
		for deadline := time.Now().Add(5 * time.Second); ; { // a child that another test forks holds a copy until it execs
			h, ok := machine.PortHolder(fmt.Sprintf("127.0.0.1:%d", port))
			if !ok {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: held by %v after it was closed", addr, h)
			}
		}
	}
}

func TestPortOnAnotherAddressIsNotInTheWay(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	port := ln.Addr().(*net.TCPAddr).Port
	if h, ok := machine.PortHolder(fmt.Sprintf("127.0.0.2:%d", port)); ok {
		t.Errorf("127.0.0.2 is held by %v", h)
	}
	for _, host := range []string{"0.0.0.0", "[::]", "localhost", "[::ffff:127.0.0.1]"} {
		if _, ok := machine.PortHolder(fmt.Sprintf("%s:%d", host, port)); !ok {
			t.Errorf("%s could be taken", host)
		}
	}
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999"} {
		if _, ok := machine.PortHolder(bad); ok {
			t.Errorf("%q has a holder", bad)
		}
	}
}

func TestHolderOfAnotherUserIsOnlyAUID(t *testing.T) {
	t.Parallel()
	perl, err := exec.LookPath("perl")
	bridgetest.Require(t, os.Geteuid() == 0 && err == nil, "this needs root to become another user, and perl to listen")
	other := exec.Command(perl, "-MIO::Socket::INET", "-e",
		`$| = 1; $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die; print $s->sockport, "\n"; <STDIN>`, "--", "--token=secret")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stdin.Close(), other.Wait() }()
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	h, ok := machine.PortHolder("127.0.0.1:" + strings.TrimSpace(port))
	if want := (machine.Holder{UID: 12345}); !ok || h != want {
		t.Errorf("PortHolder = %+v, %v, want %+v", h, ok, want)
	}
	if got := h.String(); got != "a process of another user (uid 12345)" {
		t.Errorf("says %q", got)
	}
}

func TestKernelAddressesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0100007F:1E25":                         "127.0.0.1:7717",
		"00000000:0050":                         "0.0.0.0:80",
		"00000000000000000000000001000000:1E25": "[::1]:7717",
		"0000000000000000FFFF00000100007F:1E25": "[::ffff:127.0.0.1]:7717",
		"B80D01200000000067452301EFCDAB89:0001": "[2001:db8::123:4567:89ab:cdef]:1",
	} {
		if got, ok := machine.ParseAddr(text); !ok || got.String() != want {
			t.Errorf("ParseAddr(%s) = %v, %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ":", "0100007F", "0100007F:", "xyz:1", "01:1", "0100007F00:1", "0100007F:12345"} {
		if got, ok := machine.ParseAddr(text); ok {
			t.Errorf("ParseAddr(%q) = %v", text, got)
		}
	}
}

func TestLocalDirectoryIsNotOnANetwork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "not", "there", "yet"), "/proc"} {
		if kind, network := machine.NetworkFS(path); network {
			t.Errorf("NetworkFS(%s) = %s", path, kind)
		}
	}
}

func TestMountOfAPathIsTheInnermostAndLatest(t *testing.T) {
	t.Parallel()
	const table = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /home/me/far rw - fuse.sshfs me@far:/ rw
41 22 0:36 / /home/me/with\040space rw shared:2 master:3 - fuse.rclone x rw
42 22 0:37 / /mnt rw - ext4 /dev/sdb1 rw
43 22 0:38 / /mnt rw - nfs4 server:/ rw
broken line
44 22 0:39 / /broken - 
`
	for path, want := range map[string]string{
		"/etc": "ext4", "/home/me/far": "fuse.sshfs", "/home/me/far/state": "fuse.sshfs", "/home/me/farther": "ext4",
		"/home/me/with space/x": "fuse.rclone", "/mnt/x": "nfs4", "/": "ext4",
	} {
		if got := machine.MountType(strings.NewReader(table), path); got != want {
			t.Errorf("MountType(%s) = %s, want %s", path, got, want)
		}
	}
	if got := machine.MountType(strings.NewReader(""), "/"); got != "" {
		t.Errorf("an empty table gives %s", got)
	}
}
