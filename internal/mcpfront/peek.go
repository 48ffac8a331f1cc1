package mcpfront

import (
	"context"
	"errors"
	"net"
	"syscall"
)

type connKey struct{}

// ConnContext is for http.Server: it lets the front look at a caller's
// connection just before a call is handed over.
func (f *Front) ConnContext(ctx context.Context, c net.Conn) context.Context {
	for {
		if sc, ok := c.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				return context.WithValue(ctx, connKey{}, raw)
			}
			return ctx
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return ctx
		}
		c = inner.NetConn()
	}
}

// callerGone reports whether the client at the other end has closed its
// connection. The request's context says so too, but later: requests that
// waited for the daemon to start are answered before the server has looked.
func callerGone(ctx context.Context) bool {
	raw, ok := ctx.Value(connKey{}).(syscall.RawConn)
	if !ok {
		return false
	}
	gone := false
	// Control, not Read: the server may sit in a read of its own.
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == nil:
			gone = n == 0 // the end of the stream
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		default:
			gone = true
		}
	})
	return gone || err != nil
}
