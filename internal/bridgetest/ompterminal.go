package bridgetest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// screenPoll is how often the screen is looked at.
const screenPoll = 50 * time.Millisecond

// Terminal is a real omp in a real terminal: a pane of a tmux server of its own.
type Terminal struct {
	OMPOptions
	socket string
}

// StartOMPTerminal starts omp in the pane work:0.0 of a fresh tmux. It ends with the test.
func StartOMPTerminal(t testing.TB, o OMPOptions) *Terminal {
	t.Helper()
	tools := Tools(t)
	_, err := exec.LookPath("tmux")
	Require(t, err == nil, "tmux is not installed")
	o.prepare(t)
	term := &Terminal{OMPOptions: o, socket: filepath.Join(SockDir(t), "tmux")}

	line := []string{"exec env -i TMUX=\"$TMUX\" TMUX_PANE=\"$TMUX_PANE\""}
	for _, word := range append(o.environ(tools), o.command(tools)...) {
		line = append(line, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	t.Cleanup(func() {
		if t.Failed() {
			if screen, err := term.capture(); err == nil {
				t.Logf("the screen at the end:\n%s", screen)
			}
		}
		_, _ = term.tmux("kill-server") // the server of this test; it may have ended with its pane
	})
	_, err = term.tmux("new-session", "-d", "-s", "work", "-x", "120", "-y", "50", "-c", o.Dir, strings.Join(line, " "))
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// Keys presses keys, in tmux's names: "Enter", "Down", "Escape".
func (term *Terminal) Keys(t testing.TB, keys ...string) {
	t.Helper()
	if _, err := term.tmux(append([]string{"send-keys", "-t", "work:0.0"}, keys...)...); err != nil {
		t.Fatal(err)
	}
}

// Type types a text and presses Enter.
func (term *Terminal) Type(t testing.TB, text string) {
	t.Helper()
	term.Keys(t, "-l", text)
	term.AwaitScreen(t, text)
	term.Keys(t, "Enter")
}

// Screen returns what the terminal shows and what has scrolled away.
func (term *Terminal) Screen(t testing.TB) string {
	t.Helper()
	screen, err := term.capture()
	if err != nil {
		t.Fatal(err)
	}
	return screen
}

// AwaitScreen waits until the screen contains all of the texts, and returns it.
func (term *Terminal) AwaitScreen(t testing.TB, texts ...string) string {
	t.Helper()
	deadline := time.Now().Add(ompPatience)
	tick := time.NewTicker(screenPoll)
	defer tick.Stop()
	for {
		screen := term.Screen(t)
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
		if time.Now().After(deadline) {
			t.Fatalf("the screen does not show %q", missing)
		}
		<-tick.C
	}
}

func (term *Terminal) capture() (string, error) {
	return term.tmux("capture-pane", "-p", "-J", "-S", "-500", "-t", "work:0.0")
}

func (term *Terminal) tmux(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-S", term.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + term.Home, "SHELL=/bin/sh"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}
