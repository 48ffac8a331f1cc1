package localsock

import (
	"fmt"
	"net"
	"os"
)

// SameUser returns an error unless the process at the other end of a unix
// connection runs under our uid. root is no exception: it can change its uid.
func SameUser(c net.Conn) error { return sameUser(c, os.Geteuid()) }

func sameUser(c net.Conn, want int) error {
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("a %s connection does not say who is at its other end", c.RemoteAddr().Network())
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return err
	}
	uid, credErr := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { uid, credErr = peerUID(int(fd)) }); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("ask who connected: %w", credErr)
	}
	if uid != want {
		return fmt.Errorf("refused a connection of uid %d: only uid %d may connect", uid, want)
	}
	return nil
}

// SameUserListener closes the connections of other users before anybody reads
// from them.
type SameUserListener struct {
	net.Listener
	Refused func(error) // may be nil; must not block
}

// Accept returns the next connection of our own uid.
func (l *SameUserListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		refusal := SameUser(c)
		if refusal == nil {
			return c, nil
		}
		_ = c.Close()
		if l.Refused != nil {
			l.Refused(refusal)
		}
	}
}
