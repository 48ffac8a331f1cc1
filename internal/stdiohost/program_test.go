package stdiohost_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
	"github.com/a2a-bridge/a2a-bridge/internal/stdiohost"
)

func socketPair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		if ends[i], err = net.FileConn(f); err != nil {
			return nil, nil, err
		}
		_ = f.Close() // FileConn has its own
	}
	return ends[0], ends[1], nil
}

func TestAProgramSaysWhatItIs(t *testing.T) {
	t.Parallel()
	_, l := ready(t, "new")
	h := l.hello
	got := []any{h.Kind, h.Version, h.Name, h.Gate, h.Protocol, h.PID}
	want := []any{"stdio", "1.2.3", "fixture", false, hostlink.Protocol, os.Getpid()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hello (-want +got):\n%s", diff)
	}
}

func TestAllPagesOfToolsAreListed(t *testing.T) {
	t.Parallel()
	d, _ := ready(t, "new")
	tools := wait(t, "the catalogue", d.tools).Tools
	var got []string
	for _, tool := range tools {
		got = append(got, tool.Name+" "+string(tool.Tier))
	}
	want := []string{"raw read", "liar ", "args ", "fail ", "unknown ", "progress ", "hang ", "grow ", "crash ", "huge ", "hugetail ", "mute "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got, want := string(tools[0].Definition), `"x-extra":9007199254740993`; !strings.Contains(got, want) {
		t.Errorf("definition = %s, want the program's bytes", got)
	}
}

func TestAChangedListIsAnnounced(t *testing.T) {
	t.Parallel()
	d, l := ready(t, "new")
	wait(t, "the catalogue", d.tools)
	if _, err := l.call(t, "grow", `{}`); err != nil {
		t.Fatal(err)
	}
	tools := wait(t, "the new catalogue", d.tools).Tools
	if last := tools[len(tools)-1].Name; last != "late" {
		t.Errorf("the last tool is %q, want the new one", last)
	}
}

func TestAProgramWithoutToolsIsReady(t *testing.T) {
	t.Parallel()
	d, _ := ready(t, "toolless")
	if tools := wait(t, "the catalogue", d.tools).Tools; len(tools) != 0 {
		t.Errorf("tools = %v", tools)
	}
}

func TestPagesInACircleDoNotHang(t *testing.T) {
	t.Parallel()
	d := attach(t, "circle")
	wait(t, "the link", d.links)
	// The child is started again and again; it never gets ready.
	eventually(t, "restarts", func() bool { return strings.Count(d.received(t), `"method":"initialize"`) > 2 })
	select {
	case s := <-d.states:
		t.Errorf("state %s", s)
	default:
	}
}

func (d *daemon) received(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "in.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func TestResultsAndArgumentsPassByteForByte(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"new", "old", "garbage"} {
		_, l := ready(t, mode)
		got, err := l.call(t, "raw", `{}`)
		if err != nil || got != rawResult {
			t.Errorf("%s: result = %s, %v, want %s", mode, got, err, rawResult)
		}
		args := `{"n":9007199254740993,"f":1.0,"s":"\u00e9 é <","deep":{"z":1,"a":[ ]}}`
		got, err = l.call(t, "args", args)
		var r struct{ Content []struct{ Text string } }
		if e := json.Unmarshal([]byte(got), &r); e != nil || err != nil || len(r.Content) != 1 || !strings.Contains(r.Content[0].Text, `"arguments":`+args+`,`) {
			t.Errorf("%s: the program got %s, %v, want the arguments %s", mode, got, err, args)
		}
	}
}

func TestAJSONRPCErrorBecomesAToolError(t *testing.T) {
	t.Parallel()
	_, l := ready(t, "new")
	got, err := l.call(t, "fail", `{}`)
	if want := `{"content":[{"type":"text","text":"Unknown tool: fail"}],"isError":true}`; err != nil || got != want {
		t.Errorf("call = %s, %v, want %s", got, err, want)
	}
}

func TestProgressIsRelayed(t *testing.T) {
	t.Parallel()
	_, l := ready(t, "new")
	var texts []string
	_, got := l.start(t, "progress", `{}`, func(method string, params json.RawMessage) {
		var p hostlink.Progress
		if method == hostlink.MethodProgress && json.Unmarshal(params, &p) == nil {
			texts = append(texts, p.Text)
		}
	})
	if o := wait(t, "the answer", got); o.err != nil {
		t.Fatal(o.err)
	}
	if diff := cmp.Diff([]string{"fetching", "50/100", "75.5"}, texts); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestACancelReachesTheProgram(t *testing.T) {
	t.Parallel()
	d, l := ready(t, "new")
	id, got := l.start(t, "hang", `{}`, nil)
	eventually(t, "the call's arrival", func() bool { return strings.Contains(d.received(t), `"name":"hang"`) })
	if err := l.Event(id, hostlink.MethodCancel, hostlink.Cancel{Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	var e *hostlink.Error
	if o := wait(t, "the answer", got); !errors.As(o.err, &e) || e.Kind != hostlink.KindCancelled || e.Executed != bridge.ExecutedUnknown {
		t.Errorf("call = %v, want cancelled", o.err)
	}
	eventually(t, "the cancel's arrival", func() bool {
		text := d.received(t)
		return strings.Contains(text, `"method":"notifications/cancelled"`) && strings.Contains(text, "enough")
	})
	if _, err := l.call(t, "raw", `{}`); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestWhatTheProgramAsksIsAnswered(t *testing.T) {
	t.Parallel()
	d, _ := ready(t, "new")
	for _, want := range []string{`{"jsonrpc":"2.0","id":"p-1","result":{}}`, `{"jsonrpc":"2.0","id":99,"error":{"code":-32601,"message":"Method not found"}}`} {
		eventually(t, want, func() bool { return strings.Contains(d.received(t), want+"\n") })
	}
}

func TestAProgramThatCrashesIsStartedAgain(t *testing.T) {
	t.Parallel()
	d, l := ready(t, "new")
	_, hanging := l.start(t, "hang", `{}`, nil)
	eventually(t, "the call's arrival", func() bool { return strings.Contains(d.received(t), `"name":"hang"`) })
	_, crashing := l.start(t, "crash", `{}`, nil)
	for name, got := range map[string]<-chan outcome{"hang": hanging, "crash": crashing} {
		var e *hostlink.Error
		if o := wait(t, "the answer of "+name, got); !errors.As(o.err, &e) || e.Kind != hostlink.KindFault || e.Executed != bridge.ExecutedUnknown {
			t.Errorf("%s = %q, %v, want a fault that may have run", name, o.result, o.err)
		}
	}
	d.await(hostlink.StateNotReady)
	d.await(hostlink.StateIdle)
	if got, err := l.call(t, "raw", `{}`); err != nil || got != rawResult {
		t.Errorf("after the restart: %s, %v", got, err)
	}
	if n := strings.Count(d.received(t), `"name":"hang"`); n != 1 {
		t.Errorf("the hanging call was sent %d times", n)
	}
}

func TestHugeLines(t *testing.T) {
	t.Parallel()
	d, l := ready(t, "new")
	if got, err := l.call(t, "huge", `{}`); err != nil || len(got) < 16<<20 {
		t.Errorf("16 MiB: %d bytes, %v", len(got), err)
	}
	var e *hostlink.Error
	if _, err := l.call(t, "hugetail", `{}`); !errors.As(err, &e) || e.Kind != hostlink.KindResultTooLarge || e.Executed != bridge.ExecutedYes {
		t.Errorf("over 32 MiB: %v, want resultTooLarge", err)
	}
	if _, err := l.call(t, "raw", `{}`); err != nil {
		t.Errorf("the next call: %v", err)
	}
	// Nobody can say what that line was about: the program goes.
	if _, err := l.call(t, "mute", `{}`); !errors.As(err, &e) || e.Kind != hostlink.KindFault || e.Executed != bridge.ExecutedUnknown {
		t.Errorf("an endless line: %v, want a fault", err)
	}
	d.await(hostlink.StateNotReady)
	d.await(hostlink.StateIdle)
}

func TestChatterIsEscapedAndPrefixed(t *testing.T) {
	t.Parallel()
	d, _ := ready(t, "garbage")
	want := []string{`env: starting \x1b[31mred\x1b[0m` + "\n", `not MCP: Welcome to the server!\a` + "\n", `not MCP: {"not":"rpc"}` + "\n"}
	for _, w := range want {
		eventually(t, w, func() bool { return strings.Contains(d.stderr.String(), w) })
	}
	if text := d.stderr.String(); strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("stderr = %q, want no control characters", text)
	}
}

func TestAProgramThatDoesNotSpeakMCPIsNotAttached(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"cat", "false"} {
		d := &daemon{t: t, links: make(chan *link, 4), states: make(chan string, 64)}
		var not *stdiohost.NotMCPError
		err := stdiohost.New(stdiohost.Config{Command: []string{program}, Dial: d.dial}).Run(t.Context())
		if !errors.As(err, &not) || not.Program != program {
			t.Errorf("%s: Run = %v, want that it does not speak MCP", program, err)
		}
		if len(d.links) > 0 {
			t.Errorf("%s was attached", program)
		}
	}
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{"none": nil, "missing": {"/nonexistent/program"}} {
		p := stdiohost.New(stdiohost.Config{Command: command, Dial: (&daemon{t: t, links: make(chan *link, 4)}).dial})
		if err := p.Run(t.Context()); err == nil {
			t.Errorf("%s: Run = nil, want an error", name)
		} else if name == "missing" && (!errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/nonexistent/program")) {
			t.Errorf("Run = %v, want what is missing", err)
		}
	}
}
