package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// runLimit bounds a program that we ask; a user manager that hangs must
	// not hang status.
	runLimit = 5 * time.Second
	// runOutput is as much as is kept of what it says.
	runOutput = 64 << 10
)

// limited keeps the beginning of what is written to it. The buffer is not
// embedded: its ReadFrom would take everything.
type limited struct{ kept bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := runOutput - l.kept.Len(); room > 0 {
		l.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (l *limited) String() string { return l.kept.String() }

// run runs a program for runLimit at most.
func run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	return runFor(ctx, runLimit, env, program, args...)
}

// runFor runs a program, with all its children, for this time at most, and
// returns what it says on stdout.
func runFor(ctx context.Context, limit time.Duration, env []string, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errOut limited
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errOut, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a child that left the group may hold the pipes
	err := cmd.Run()
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", filepath.Base(program), context.Cause(ctx))
	}
	said, _, _ := strings.Cut(strings.TrimSpace(errOut.String()), "\n")
	if said == "" {
		said = err.Error()
	}
	return "", errors.New(filepath.Base(program) + ": " + printable(said, 200))
}

// lookPath finds an executable in the absolute directories of a list such as
// PATH.
func lookPath(name string, dirs []string) (string, bool) {
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue // what it means depends on where we are
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}
