package localsock_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/localsock"
)

// These tests set environment variables, so they do not run in parallel.

func manager(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return c
}

func receive(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, 4096)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestServiceManagerHearsHowWeAre(t *testing.T) {
	sockets := []string{filepath.Join(sockDir(t), "notify")}
	if abstract := "@a2a-bridge-test-" + strconv.Itoa(os.Getpid()); runtime.GOOS == "linux" {
		sockets = append(sockets, abstract)
	}
	for _, name := range sockets {
		c := manager(t, name)
		for _, test := range []struct {
			send func() error
			want string
		}{
			{localsock.Ready, `^READY=1$`},
			{localsock.Reloading, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*$`},
			{localsock.Stopping, `^STOPPING=1$`},
			{localsock.Alive, `^WATCHDOG=1$`},
			{func() error { return localsock.Status("two\nlines") }, `^STATUS=two lines$`},
		} {
			if err := test.send(); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, c); !regexp.MustCompile(test.want).MatchString(got) {
				t.Errorf("sent %q, want %s", got, test.want)
			}
		}
	}
}

func TestWithoutAServiceManagerNothingIsSentAndABrokenOneIsAnError(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := localsock.Ready(); err != nil {
		t.Errorf("Ready without a manager = %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/notify")
	if err := localsock.Ready(); err == nil {
		t.Error("Ready to a manager that is not there gives no error")
	}
}

func TestWatchdogInterval(t *testing.T) {
	t.Setenv("WATCHDOG_PID", "")
	t.Setenv("WATCHDOG_USEC", "30000000")
	if got, err := localsock.Watchdog(); err != nil || got != 30*time.Second {
		t.Errorf("Watchdog = %v, %v", got, err)
	}
	t.Setenv("WATCHDOG_USEC", "")
	if got, err := localsock.Watchdog(); err != nil || got != 0 {
		t.Errorf("Watchdog without one = %v, %v", got, err)
	}
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := localsock.Watchdog(); err == nil {
		t.Error("a broken interval gives no error")
	}
}
