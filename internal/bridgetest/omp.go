package bridgetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// ompPatience is how long omp may take for one thing. It starts in 2 to 6 s on a quiet machine.
	ompPatience = 60 * time.Second
	// ompGrace is how long it may take to end when its input has ended.
	ompGrace = 10 * time.Second
)

// OMP is a real omp in rpc mode: JSON commands in, JSON frames out.
type OMP struct {
	OMPOptions

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr syncBuffer
	exited chan struct{}

	mu     sync.Mutex
	wake   chan struct{} // closed and replaced at each new frame
	frames []Frame
	taken  []bool
}

// Frame is one line of omp's output.
type Frame map[string]any

// Text returns a string field, "" when it is absent.
func (f Frame) Text(key string) string {
	s, _ := f[key].(string)
	return s
}

// StartOMP starts omp in rpc mode and waits until it is ready. It ends with the test.
func StartOMP(t testing.TB, o OMPOptions) *OMP {
	t.Helper()
	omp := LaunchOMP(t, o)
	omp.Await(t, "ready", func(f Frame) bool { return f.Text("type") == "ready" })
	return omp
}

// LaunchOMP starts omp in rpc mode and returns at once.
func LaunchOMP(t testing.TB, o OMPOptions) *OMP {
	t.Helper()
	tools := Tools(t)
	o.prepare(t)
	argv := o.command(tools, "--mode", "rpc")
	omp := &OMP{OMPOptions: o, exited: make(chan struct{}), wake: make(chan struct{})}
	omp.cmd = exec.Command(argv[0], argv[1:]...)
	omp.cmd.Dir, omp.cmd.Env, omp.cmd.Stderr = o.Dir, o.environ(tools), &omp.stderr
	omp.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if omp.stdin, err = omp.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := omp.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := omp.cmd.Start(); err != nil {
		t.Fatalf("start omp: %v", err)
	}
	go omp.read(stdout)
	t.Cleanup(func() {
		omp.end()
		if t.Failed() {
			t.Logf("omp's stderr:\n%s", omp.stderr.String())
		}
	})
	return omp
}

// PID is omp's process id.
func (o *OMP) PID() int { return o.cmd.Process.Pid }

// Stderr returns what omp has written there.
func (o *OMP) Stderr() string { return o.stderr.String() }

// Signal sends a signal to omp.
func (o *OMP) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := o.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal omp: %v", err)
	}
}

// CloseInput ends omp's input: it shuts down in order.
func (o *OMP) CloseInput() { _ = o.stdin.Close() }

// AwaitExit waits for omp's end and returns its exit code, -1 after a signal.
func (o *OMP) AwaitExit(t testing.TB) int {
	t.Helper()
	select {
	case <-o.exited:
		return o.cmd.ProcessState.ExitCode()
	case <-time.After(ompPatience):
		t.Fatal("omp does not end")
		return 0
	}
}

// Alive reports whether omp has not ended.
func (o *OMP) Alive() bool {
	select {
	case <-o.exited:
		return false
	default:
		return true
	}
}

// Send writes one command.
func (o *OMP) Send(t testing.TB, command map[string]any) {
	t.Helper()
	line, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.stdin.Write(append(line, '\n')); err != nil {
		t.Fatalf("write to omp: %v\n%s", err, o.Stderr())
	}
}

// Prompt types a line, as its user would: a message to the model, or a command such as /a2a.
func (o *OMP) Prompt(t testing.TB, text string) {
	t.Helper()
	o.Send(t, map[string]any{"type": "prompt", "message": text})
}

// Await returns the next frame that matches. Each frame is returned once; those that no one asks for are kept.
func (o *OMP) Await(t testing.TB, what string, match func(Frame) bool) Frame {
	t.Helper()
	timeout := time.NewTimer(ompPatience)
	defer timeout.Stop()
	for {
		frame, wake := o.take(match)
		if frame != nil {
			return frame
		}
		select {
		case <-wake:
		case <-o.exited:
			if frame, _ := o.take(match); frame != nil {
				return frame
			}
			t.Fatalf("omp ended without %s\n%s", what, o.Stderr())
		case <-timeout.C:
			t.Fatalf("omp did not say %s in %s\n%s", what, ompPatience, o.Stderr())
		}
	}
}

// Dialog waits for a selector whose title contains the text and returns its id.
func (o *OMP) Dialog(t testing.TB, title string) string {
	t.Helper()
	return o.Await(t, "a dialog "+title, func(f Frame) bool {
		return f.Text("type") == "extension_ui_request" && f.Text("method") == "select" && strings.Contains(f.Text("title"), title)
	}).Text("id")
}

// Answer chooses an option in a dialog.
func (o *OMP) Answer(t testing.TB, id, value string) {
	t.Helper()
	o.Send(t, map[string]any{"type": "extension_ui_response", "id": id, "value": value})
}

// Notice waits for a notification that contains the text, and returns all of it.
func (o *OMP) Notice(t testing.TB, text string) string {
	t.Helper()
	return o.Await(t, "a notice "+text, func(f Frame) bool {
		return f.Text("type") == "extension_ui_request" && f.Text("method") == "notify" && strings.Contains(f.Text("message"), text)
	}).Text("message")
}

func (o *OMP) take(match func(Frame) bool) (Frame, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, f := range o.frames {
		if !o.taken[n] && match(f) {
			o.taken[n] = true
			return f, nil
		}
	}
	return nil, o.wake
}

func (o *OMP) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		var f Frame
		if json.Unmarshal(line, &f) == nil && f != nil {
			o.mu.Lock()
			o.frames, o.taken = append(o.frames, f), append(o.taken, false)
			close(o.wake)
			o.wake = make(chan struct{})
			o.mu.Unlock()
		}
		if err != nil {
			_ = o.cmd.Wait()
			close(o.exited)
			return
		}
	}
}

// end stops omp and whatever it has started.
func (o *OMP) end() {
	o.CloseInput()
	select {
	case <-o.exited:
	case <-time.After(ompGrace):
	}
	_ = syscall.Kill(-o.cmd.Process.Pid, syscall.SIGKILL) // its whole group, also when it has ended
	<-o.exited
}

// syncBuffer is a bytes.Buffer that may be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// ProcessAlive reports whether a process exists and is not a zombie.
func ProcessAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && !strings.HasPrefix(state, "Z")
}
