package bridgetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/a2a-bridge/a2a-bridge/internal/probe"
)

// scriptTime bounds one step of a script.
const scriptTime = 30 * time.Second

// ScriptPrograms are what a test binary offers to its scripts besides the
// programs under test.
//
//	fixture                     an MCP server on stdio, for a2actl attach
//	mcpcall [-token FILE] [-list] TOOL ARGS   a remote client; MCP_URL says where
//	webget URL                  status and body of a plain GET
func ScriptPrograms() map[string]func() {
	return map[string]func(){
		"fixture": func() { os.Exit(fixture()) },
		"mcpcall": func() { os.Exit(mcpcall(os.Args[1:])) },
		"webget":  func() { os.Exit(webget(os.Args[1])) },
	}
}

// ScriptCommands are the commands that scripts have besides testscript's own.
//
//	until REGEXP PROGRAM ARGS…  run the program again and again until its output matches
func ScriptCommands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){"until": until}
}

// ScriptEnv gives a script a user of its own, with the directories that
// sockets need. It is for testscript's Setup.
func ScriptEnv(env *testscript.Env, sockets, port string) error {
	home := filepath.Join(env.WorkDir, "home")
	for key, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "config"), "XDG_STATE_HOME": filepath.Join(home, "state"),
		"XDG_RUNTIME_DIR": sockets, "A2A_BRIDGE_HTTP_PORT": port, "PORT": port, "NO_COLOR": "1",
		"MCP_URL": "http://127.0.0.1:" + port + "/mcp", "TMUX_PANE": "", "TMUX": "",
	} {
		env.Setenv(key, value)
	}
	return os.MkdirAll(filepath.Join(home, "config", "a2a-bridge"), 0o700)
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM ARGS…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	deadline := time.Now().Add(scriptTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		cmd := exec.Command(lookPath(ts, args[1]), args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = append(os.Environ(), scriptVars(ts)...)
		out, _ := cmd.Output() // a failure is what is being waited out
		if want.Match(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not say %q in %s; last:\n%s", strings.Join(args[1:], " "), args[0], scriptTime, out)
		}
		<-tick.C
	}
}

func lookPath(ts *testscript.TestScript, program string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	ts.Fatalf("no program %s", program)
	return ""
}

// scriptVars hands the script's environment on, as far as these tests set it.
func scriptVars(ts *testscript.TestScript) []string {
	var out []string
	for _, key := range []string{"HOME", "PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "A2A_BRIDGE_HTTP_PORT", "A2A_BRIDGE_CONFIG", "MCP_URL", "NO_COLOR"} {
		out = append(out, key+"="+ts.Getenv(key))
	}
	return out
}

// mcpcall is a remote client for scripts: the result's text to stdout; an
// error of the tool or the bridge to stderr, with exit code 1.
func mcpcall(args []string) int {
	flags := flag.NewFlagSet("mcpcall", flag.ExitOnError)
	token := flags.String("token", "token", "file with the token")
	list := flags.Bool("list", false, "list the tools")
	_ = flags.Parse(args) // ExitOnError
	raw, err := os.ReadFile(*token)
	if err != nil {
		return complain(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*scriptTime)
	defer cancel()
	c := probe.New(os.Getenv("MCP_URL"), strings.TrimSpace(string(raw)))
	defer c.Close()
	s, err := c.Initialize(ctx)
	if err != nil {
		return complain(err)
	}
	if *list {
		tools, err := s.ListTools(ctx)
		if err != nil {
			return complain(err)
		}
		for _, t := range tools {
			fmt.Println(t.Name)
		}
		return 0
	}
	result, err := s.CallTool(ctx, flags.Arg(0), json.RawMessage(flags.Arg(1)), nil)
	if err != nil {
		return complain(err)
	}
	if result.IsError {
		return complain(fmt.Errorf("%s\n[executed=%s retry=%s]", result.Text, result.Executed, result.Retry))
	}
	fmt.Println(result.Text)
	return 0
}

func webget(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), scriptTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return complain(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return complain(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return complain(err)
	}
	fmt.Printf("%d %s", resp.StatusCode, body)
	return 0
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// fixtureTools are the tools of the fixture. wait runs until its file exists
// or it is cancelled; append shows how often it ran.
const fixtureTools = `{"tools":[` +
	`{"name":"echo","description":"answers with its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true}},` +
	`{"name":"append","description":"appends its text to a file","inputSchema":{"type":"object","properties":{"file":{"type":"string"},"text":{"type":"string"}}}},` +
	`{"name":"wait","description":"waits for a file","inputSchema":{"type":"object","properties":{"file":{"type":"string"},"started":{"type":"string"}}}}]}`

// fixture is a small MCP server on stdio.
func fixture() int {
	var mu sync.Mutex
	reply := func(id json.RawMessage, result string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	}
	running := map[string]context.CancelFunc{}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string            `json:"name"`
				Arguments map[string]string `json:"arguments"`
				RequestID json.RawMessage   `json:"requestId"`
			} `json:"params"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return complain(err)
		}
		switch m.Method {
		case "initialize":
			reply(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fixture","version":"1"}}`)
		case "ping":
			reply(m.ID, `{}`)
		case "tools/list":
			reply(m.ID, fixtureTools)
		case "notifications/cancelled":
			mu.Lock()
			if cancel := running[string(m.Params.RequestID)]; cancel != nil {
				cancel()
			}
			mu.Unlock()
		case "tools/call":
			ctx, cancel := context.WithCancel(context.Background())
			mu.Lock()
			running[string(m.ID)] = cancel
			mu.Unlock()
			go func() {
				defer cancel()
				text, err := runFixture(ctx, m.Params.Name, m.Params.Arguments)
				if ctx.Err() != nil {
					return // a cancelled request is not answered
				}
				if err != nil {
					text = err.Error()
				}
				raw, _ := json.Marshal(text) // a string always encodes
				reply(m.ID, fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"isError":%t}`, raw, err != nil))
			}()
		}
	}
}

func runFixture(ctx context.Context, tool string, args map[string]string) (string, error) {
	switch tool {
	case "echo":
		return args["text"], nil
	case "append":
		return "appended", appendTo(args["file"], args["text"])
	case "wait":
		if args["started"] != "" {
			if err := appendTo(args["started"], "started"); err != nil {
				return "", err
			}
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(args["file"]); err == nil {
				return "it came", nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
	return "", errors.New("no such tool")
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, text); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
