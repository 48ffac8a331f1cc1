package ctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The bounds of the proof. A cold omp takes up to 6 s to be ready, many times
// that on a busy machine; what loads says hello soon after that.
const (
	proofTime  = time.Minute     // unless --timeout says otherwise
	helloShare = 6               // of that time for the hello, once omp is ready
	proofGrace = 2 * time.Second // to leave by itself, once told
	helloBytes = 1 << 20
	tailBytes  = 4 << 10
)

var errNoModel = errors.New("omp has no model yet, so it does not start")

// helloSeen is the part of the extension's first frame that proves something.
type helloSeen struct {
	Version   string `json:"version"`
	Extension string `json:"extension"`
}

// proveOMP starts omp as the user would, without a screen and without keeping
// a session, and waits until the extension says hello on a socket that only
// this process listens on. No model is asked anything.
func (a *app) proveOMP(ctx context.Context, omp string, limit time.Duration) (helloSeen, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "a2a")
	if err != nil {
		return helloSeen{}, fmt.Errorf("make a directory for the proof: %w", err)
	}
	defer os.RemoveAll(dir)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", filepath.Join(dir, "host.sock"))
	if err != nil {
		return helloSeen{}, fmt.Errorf("listen for the extension: %w", err)
	}
	defer l.Close()

	said, ready := &tail{}, &readiness{seen: make(chan struct{})}
	cmd := exec.CommandContext(ctx, omp, "--mode", "rpc", "--no-session", "--no-lsp", "--no-skills", "--no-rules")
	cmd.Dir = dir
	cmd.Env = append(append([]string{}, a.environ...), "A2A_BRIDGE_HOST_SOCKET="+l.Addr().String(), "PATH="+a.ompPath(omp))
	cmd.Stdout, cmd.Stderr = ready, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that nothing of it stays
	cmd.WaitDelay = proofGrace
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return helloSeen{}, fmt.Errorf("prepare omp: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return helloSeen{}, fmt.Errorf("start %s: %w", omp, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended does not matter, what it said does
	}()
	hello := make(chan helloSeen, 1)
	go func() {
		if h, err := firstHello(l); err == nil {
			hello <- h
		}
	}()
	defer func() {
		_ = stdin.Close() // omp's rpc mode ends with its input
		select {
		case <-ended:
		case <-time.After(proofGrace):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that it left
	}()
	var late <-chan time.Time
	started := ready.seen
	for {
		select {
		case h := <-hello:
			return h, nil
		case <-ended:
			if said.mentions("models.yml") { // where omp tells a user without a model to look
				return helloSeen{}, errNoModel
			}
			return helloSeen{}, errors.New("omp ended at once" + said.lastLine())
		case <-started:
			started, late = nil, time.After(limit/helloShare)
		case <-late:
			return helloSeen{}, errors.New("omp is ready, but no hello came" + said.lastLine())
		case <-ctx.Done():
			return helloSeen{}, fmt.Errorf("omp was not ready in %s%s", limit, said.lastLine())
		}
	}
}

// ompPath makes sure that omp finds the bun beside it, as in a login shell.
func (a *app) ompPath(omp string) string {
	return filepath.Dir(omp) + string(os.PathListSeparator) + a.env("PATH")
}

// firstHello takes the first frame of the first link.
func firstHello(l net.Listener) (helloSeen, error) {
	c, err := l.Accept()
	if err != nil {
		return helloSeen{}, err
	}
	defer c.Close()
	line, err := bufio.NewReader(io.LimitReader(c, helloBytes)).ReadBytes('\n')
	if err != nil {
		return helloSeen{}, err
	}
	var frame struct {
		Method string    `json:"method"`
		Params helloSeen `json:"params"`
	}
	if err := json.Unmarshal(line, &frame); err != nil || frame.Method != "hello" {
		return helloSeen{}, fmt.Errorf("the first frame is no hello: %w", err)
	}
	return frame.Params, nil
}

// readiness waits for omp's first frame and drops the rest.
type readiness struct {
	seen chan struct{}
	head []byte
	done bool
}

func (r *readiness) Write(p []byte) (int, error) {
	if !r.done {
		r.head = append(r.head, p...)
		if r.done = bytes.Contains(r.head, []byte(`"type":"ready"`)) || len(r.head) > tailBytes; r.done {
			close(r.seen)
			r.head = nil
		}
	}
	return len(p), nil
}

// tail keeps the end of what a program said.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - tailBytes; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) mentions(word string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Contains(t.buf.Bytes(), []byte(word))
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(t.buf.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return ": " + last
	}
	return ""
}
