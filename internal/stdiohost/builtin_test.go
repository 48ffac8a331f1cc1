package stdiohost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/stdiohost"
)

func TestTheBuiltinHostRunsItsTools(t *testing.T) {
	t.Parallel()
	d := &daemon{t: t, links: make(chan *link, 4), tools: make(chan hostlink.Tools, 4), states: make(chan string, 4)}
	file := filepath.Join(t.TempDir(), "lines")
	host := stdiohost.Builtin(stdiohost.BuiltinConfig{Name: "demo", Dial: d.dial, Version: "1", AppendTo: file})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- host.Run(ctx) }()
	l := wait(t, "the link", d.links)

	tiers := map[string]bridge.Tier{}
	for _, tool := range wait(t, "the catalogue", d.tools).Tools {
		tiers[tool.Name] = tool.Tier
	}
	if diff := cmp.Diff(map[string]bridge.Tier{"echo": "read", "append": ""}, tiers); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for _, tc := range []struct{ tool, args, want string }{
		{"echo", `{"text":"grüße"}`, `{"content":[{"type":"text","text":"grüße"}]}`},
		{"append", `{"text":"one"}`, `{"content":[{"type":"text","text":"appended"}]}`},
		{"append", `{"text":"two"}`, `{"content":[{"type":"text","text":"appended"}]}`},
	} {
		if got, err := l.call(t, tc.tool, tc.args); err != nil || got != tc.want {
			t.Errorf("%s %s = %s, %v, want %s", tc.tool, tc.args, got, err, tc.want)
		}
	}
	for _, args := range []string{`{}`, `{"text":5}`, `[]`, `{"text":null}`} {
		var e *hostlink.Error
		if _, err := l.call(t, "append", args); !errors.As(err, &e) || e.Kind != hostlink.KindBadArguments || e.Executed != bridge.ExecutedNo {
			t.Errorf("append %s: %v, want badArguments", args, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "one\ntwo\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestNothingOfAProgramIsLeftBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, links: make(chan *link, 4), tools: make(chan hostlink.Tools, 4), states: make(chan string, 4)}
	p := stdiohost.New(stdiohost.Config{
		// A launcher that leaves a grandchild with the program's pipes.
		Command: []string{"/bin/sh", "-c", `sleep 600 & echo $! >"$0/pid"; exec env ` + serverEnv + `=new STDIOHOST_TEST_DIR="$0" "$1"`, dir, self},
		Dial:    d.dial,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	wait(t, "the link", d.links)
	d.await(hostlink.StateIdle)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the grandchild's end", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || (err == nil && strings.Contains(string(stat), ") Z "))
	})
}
