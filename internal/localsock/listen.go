package localsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Config says where to listen when nobody passes us sockets.
type Config struct {
	HTTPAddr    string // host:port
	HostPath    string
	ControlPath string
}

// Listeners are the open sockets by purpose. Under systemd there may be
// several of each, or none: then Problems says which is missing.
type Listeners struct {
	HTTP    []net.Listener
	Host    []net.Listener
	Control []net.Listener

	Activated bool    // systemd holds the sockets and starts us again
	Problems  []error // what the daemon can live with, for status
}

// Close closes every listener and removes the socket files that we made.
func (l *Listeners) Close() error {
	var errs []error
	for _, group := range [][]net.Listener{l.HTTP, l.Host, l.Control} {
		for _, ln := range group {
			errs = append(errs, ln.Close())
		}
	}
	return errors.Join(errs...)
}

// The names that the socket units give to their descriptors.
const (
	nameHTTP    = "http"
	nameHost    = "host"
	nameControl = "control"
)

// group returns where listeners of a name belong; nil for an unknown name.
func (l *Listeners) group(name string) *[]net.Listener {
	switch name {
	case nameHTTP:
		return &l.HTTP
	case nameHost:
		return &l.Host
	case nameControl:
		return &l.Control
	}
	return nil
}

// BindError says which address could not be taken. It wraps the cause, so
// errors.Is(err, syscall.EADDRINUSE) tells a taken port.
type BindError struct {
	Name string // http, host or control
	Addr string
	Err  error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("listen on %s (%s): %v", e.Addr, e.Name, e.Err)
}

func (e *BindError) Unwrap() error { return e.Err }

// Listen takes the sockets that systemd passed, or binds them. It is called
// once, early: afterwards the variables LISTEN_* are gone, so that no child
// believes that they are meant for it.
//
// A descriptor without a known name, or that is no listening socket of the
// right kind, is an error; a socket that was not passed is only a problem,
// because a taken port must not take the others down.
func Listen(cfg Config) (*Listeners, error) {
	l := &Listeners{}
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	files := activation.Files(true)
	switch {
	case len(files) > 0:
		if err := l.adopt(files); err != nil {
			_ = l.Close()
			return nil, err
		}
		return l, nil
	case pid == strconv.Itoa(os.Getpid()):
		return nil, fmt.Errorf("LISTEN_FDS is %q: the service manager passed no usable sockets", count)
	case pid != "":
		l.Problems = append(l.Problems, fmt.Errorf(
			"sockets were passed to process %s, not to this one (%d): start a2a-bridge directly or with exec, not through a shell", strings.TrimSpace(pid), os.Getpid()))
	}
	if err := l.bind(cfg); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// adopt turns passed descriptors into listeners.
func (l *Listeners) adopt(files []*os.File) error {
	l.Activated = true
	for i, f := range files {
		group := l.group(f.Name())
		if group == nil {
			return fmt.Errorf("socket %d of %d was passed with the unknown name %q: FileDescriptorName= of its unit must be http, host or control",
				i+1, len(files), f.Name())
		}
		ln, err := adoptOne(f)
		if err != nil {
			return fmt.Errorf("socket %d of %d, named %q: %w", i+1, len(files), f.Name(), err)
		}
		*group = append(*group, ln)
	}
	for _, want := range []struct{ name, unit string }{
		{nameHTTP, "a2a-bridge.socket"}, {nameHost, "a2a-bridge-host.socket"}, {nameControl, "a2a-bridge-control.socket"},
	} {
		if len(*l.group(want.name)) == 0 {
			l.Problems = append(l.Problems, &MissingError{Name: want.name, Unit: want.unit})
		}
	}
	return nil
}

// MissingError says that systemd started us without one of the sockets.
type MissingError struct {
	Name string
	Unit string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("systemd passed no %s socket: %s is not active\ntry: systemctl --user restart %s", e.Name, e.Unit, e.Unit)
}

func adoptOne(f *os.File) (net.Listener, error) {
	defer func() { _ = f.Close() }() // FileListener works on a copy
	accepts, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || accepts == 0 {
		return nil, errors.New("is not a listening socket")
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	want := "unix" // only there can we ask who connects
	if f.Name() == nameHTTP {
		want = "tcp"
	}
	if got := ln.Addr().Network(); got != want {
		_ = ln.Close()
		return nil, fmt.Errorf("is a %s socket; it must be a %s socket", got, want)
	}
	return ln, nil
}

// bind opens the sockets itself. The port comes first: when it is taken,
// nothing else has been touched.
func (l *Listeners) bind(cfg Config) error {
	ln, err := net.Listen("tcp", cfg.HTTPAddr) //nolint:noctx // binding does not wait
	if err != nil {
		return &BindError{Name: nameHTTP, Addr: cfg.HTTPAddr, Err: bare(err)}
	}
	l.HTTP = append(l.HTTP, ln)
	for _, s := range []struct{ name, path string }{{nameHost, cfg.HostPath}, {nameControl, cfg.ControlPath}} {
		ln, err := bindUnix(s.path)
		if err != nil {
			return &BindError{Name: s.name, Addr: s.path, Err: bare(err)}
		}
		group := l.group(s.name)
		*group = append(*group, ln)
	}
	return nil
}

// bare drops what net says of the address, since BindError names it.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
