package stdiohost

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

const (
	// writeLimit is how long a child may leave a message unread.
	writeLimit = 30 * time.Second
	// drainLimit is how long we read on after a child has ended: a grandchild
	// may hold its pipes.
	drainLimit = time.Second
	// stopStep is how long a child gets for each of: end of input, SIGTERM.
	stopStep = 2 * time.Second
	// chatterLine is where an endless line of chatter is broken.
	chatterLine = 4 << 10
)

// child is a running program and its pipes.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	lines  *hostlink.LineReader
	ended  chan struct{} // closed when the process has been waited for
	err    error         // how it ended; set before ended is closed
	stderr sync.WaitGroup

	write sync.Mutex
}

// startChild starts the program in a process group of its own.
func startChild(command []string, out *escaper) (*child, error) {
	var pipes [3][2]*os.File
	closeAll := func(end int) {
		for _, p := range pipes {
			if p[end] != nil {
				_ = p[end].Close() // nothing was written through it
			}
		}
	}
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(0)
			closeAll(1)
			return nil, &startError{program: command[0], err: err}
		}
		pipes[i] = [2]*os.File{r, w}
	}
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // stop ends it in steps
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		closeAll(0)
		closeAll(1)
		return nil, &startError{program: command[0], err: err}
	}
	for _, f := range []*os.File{pipes[0][0], pipes[1][1], pipes[2][1]} {
		_ = f.Close() // the child has its own
	}
	c := &child{cmd: cmd, stdin: pipes[0][1], stdout: pipes[1][0], ended: make(chan struct{}),
		lines: hostlink.NewLineReader(pipes[1][0], hostlink.MaxFrame)}
	name := filepath.Base(command[0])
	stderr := pipes[2][0]
	c.stderr.Go(func() {
		out.copy(name+": ", stderr)
		_ = stderr.Close() // read to its end
	})
	go func() {
		err := cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind; mostly nothing
		until := time.Now().Add(drainLimit)
		_ = c.stdout.SetReadDeadline(until) // a pipe takes deadlines
		_ = stderr.SetReadDeadline(until)
		if err == nil {
			err = errors.New("it exited with status 0")
		}
		c.err = fmt.Errorf("%s has ended: %w", name, err)
		close(c.ended)
	}()
	return c, nil
}

// send writes one line.
func (c *child) send(line []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.stdin.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return fmt.Errorf("write to the program: %w", err)
	}
	if _, err := c.stdin.Write(append(line, '\n')); err != nil {
		c.kill() // part of the line may have left
		return fmt.Errorf("write to the program: %w", err)
	}
	return nil
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

// signal reaches the child's whole group while the child is there.
func (c *child) signal(s syscall.Signal) {
	select {
	case <-c.ended:
	default:
		_ = syscall.Kill(-c.cmd.Process.Pid, s) // it may have ended just now
	}
}

// stop ends the child: first its input, then SIGTERM, then SIGKILL. It returns
// when the child has been waited for and its pipes are closed.
func (c *child) stop() {
	_ = c.stdin.Close() // the child sees the end of its input
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-c.ended:
		case <-time.After(stopStep):
			c.signal(s)
		}
	}
	<-c.ended
	c.stderr.Wait()
	_ = c.stdout.Close() // read to its end
}

// escaper writes foreign lines with a prefix, so that they can neither steer a
// terminal nor pass for lines of ours.
type escaper struct {
	mu sync.Mutex
	w  io.Writer
}

// copy relays r line by line until it ends.
func (e *escaper) copy(prefix string, r io.Reader) {
	in := bufio.NewReaderSize(r, chatterLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			e.line(prefix, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (e *escaper) line(prefix string, line []byte) {
	line = line[:min(len(line), chatterLine)]
	text := prefix + escape(strings.TrimRight(string(line), "\r\n")) + "\n"
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = io.WriteString(e.w, text) // chatter has nowhere else to go
}

// escape replaces what does not print by its Go escape.
func escape(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\t' || unicode.IsPrint(r):
			b.WriteString(s[:n])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
