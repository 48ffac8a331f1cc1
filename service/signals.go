package service

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// surroundings are what a program finds where it was started.
type surroundings struct {
	terminal bool            // its log goes to one
	attended bool            // it ends with the terminal that it was started in
	hurry    <-chan struct{} // closed when it is told a second time to stop
}

// look finds out where we are. A daemon of systemd's is never attended, even
// with a terminal to talk to.
func look(errOut io.Writer) surroundings {
	s := surroundings{terminal: isTerminal(errOut)}
	s.attended = (s.terminal || isTerminal(os.Stdin)) && os.Getenv("NOTIFY_SOCKET") == ""
	return s
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// untilToldToStop returns a context that ends at the first signal to stop. For
// an attended program the end of its terminal is one; for others SIGHUP means
// to read the settings again. The second interrupt closes hurry; a second
// hangup does not, since a shell and the kernel both send one.
func (s *surroundings) untilToldToStop(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	stops, hurry, over := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	s.hurry = hurry
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	if s.attended {
		signal.Notify(stops, syscall.SIGHUP)
	}
	go func() {
		for {
			select {
			case sig := <-stops:
				if ctx.Err() == nil {
					cancel()
				} else if sig != syscall.SIGHUP {
					close(hurry)
					return
				}
			case <-over:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(stops)
		close(over)
		cancel()
	}
}
