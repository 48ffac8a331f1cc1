package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// The exit codes. They are part of the interface: more may come, none changes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitRefused     = 4
	exitNotFound    = 5
	exitInterrupted = 130
)

// failure is an error with the next thing to type, or with a code of its own.
type failure struct {
	err  error
	try  string
	code int // 0: decided by what err is
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// withTry adds the next step to an error.
func withTry(err error, try string) error { return &failure{err: err, try: try} }

// orTry adds the next step unless the error has one already.
func orTry(err error, try string) error {
	var f *failure
	if errors.As(err, &f) {
		return err
	}
	return withTry(err, try)
}

// usage is a mistake in the command line.
func usage(try, format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), try: try, code: exitUsage}
}

// silent ends with a code after everything has been said.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit %d", int(s)) }

// kindCodes is the table from kinds to codes; a kind without a row failed.
var kindCodes = map[bridge.Kind]int{
	bridge.NotFound:        exitNotFound,
	bridge.Conflict:        exitRefused,
	bridge.BadArguments:    exitUsage,
	bridge.Denied:          exitRefused,
	bridge.Paused:          exitRefused,
	bridge.Stopping:        exitRefused,
	bridge.NoHost:          exitFailed,
	bridge.QueueFull:       exitRefused,
	bridge.Moved:           exitFailed,
	bridge.ToolUnavailable: exitNotFound,
	bridge.TooLarge:        exitRefused,
	bridge.NotApproved:     exitRefused,
	bridge.CallerGone:      exitFailed,
	bridge.CancelledByPeer: exitFailed,
	bridge.CancelledHere:   exitFailed,
	bridge.NotArrived:      exitFailed,
	bridge.HostLost:        exitFailed,
	bridge.ResultTooLarge:  exitFailed,
	bridge.HostFault:       exitFailed,
	bridge.LedgerFault:     exitFailed,
}

// code decides how the program ends.
func code(err error) int {
	var quiet silent
	var f *failure
	var gone *control.Unreachable
	var kind bridge.Kind
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &f) && f.code != 0:
		return f.code
	case errors.As(err, &gone):
		return exitUnreachable
	case errors.As(err, &kind) && kindCodes[kind] != 0:
		return kindCodes[kind]
	}
	return exitFailed
}

// report writes an error for a person. Nobody reads the end of a broken pipe.
func report(w io.Writer, err error) {
	var quiet silent
	if err == nil || errors.As(err, &quiet) || errors.Is(err, syscall.EPIPE) || errors.Is(err, context.Canceled) {
		return
	}
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		lines[i] = clean(l)
	}
	fmt.Fprintln(w, strings.Join(lines, "\n"))
	var f *failure
	if errors.As(err, &f) && f.try != "" {
		fmt.Fprintln(w, "try: "+f.try)
	}
}
