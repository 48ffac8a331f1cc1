package config_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-bridge/a2a-bridge/internal/config"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	want := config.Config{
		HTTP:     config.HTTP{Host: "127.0.0.1", Port: 7717},
		Limits:   config.Limits{Body: 1 << 20, Concurrency: 32, Result: 16 << 20},
		Queue:    config.Queue{Mode: "queue", Wait: time.Minute, MaxCalls: 64, MaxBytes: 16 << 20},
		Approval: config.Approval{Timeout: 5 * time.Minute},
		Resume:   config.Resume{Grace: 10 * time.Second, Keep: 2 * time.Minute},
		IdleExit: config.IdleAuto,
		Audit:    config.Audit{MaxBytes: 16 << 20, Keep: 4},
		Log:      config.Log{Level: slog.LevelInfo, Format: "auto"},
		Tasks:    config.Tasks{WhenBusy: "queue", HostGrace: 10 * time.Minute},
	}
	if diff := cmp.Diff(want, config.Default()); diff != "" {
		t.Errorf("Default() (-want +got):\n%s", diff)
	}
	if got := config.Default().HTTP.Addr(); got != "127.0.0.1:7717" {
		t.Errorf("Addr() = %q", got)
	}
}

func TestIdleExitDependsOnWhoStartsUs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set              string
		activated, alone time.Duration
	}{
		{"auto", 10 * time.Minute, 0},
		{"off", 0, 0},
		{"30s", 30 * time.Second, 30 * time.Second},
	} {
		c, problems := config.Load("", nil, map[string]string{"idle_exit": test.set})
		if len(problems) > 0 {
			t.Fatalf("idle_exit %s: %v", test.set, problems)
		}
		if got := [2]time.Duration{c.IdleAfter(true), c.IdleAfter(false)}; got != [2]time.Duration{test.activated, test.alone} {
			t.Errorf("idle_exit %s: IdleAfter = %v", test.set, got)
		}
	}
}

// everything sets each key to something that is not its default.
const everything = `# a comment
http:
  host: "::1"
  port: 8080
  insecure: true
  allowed_hosts: [bridge.example.org, "10.0.0.1:7717"]
  allowed_origins:
    - https://app.example.org
  public_url: https://bridge.example.org/x
limits: {body: 2MiB, concurrency: 8, result: 1048576}
queue:
  mode: reject
  wait: 1m30s
  max_calls: 3
  max_bytes: 64KiB
approval: {timeout: 90s}
resume: {grace: 20s, keep: 0s}
idle_exit: 5m
exposure:
  deny: ["mcp__*", bash]
  deny_mcp_tools: true
audit: {max_bytes: 1MiB, keep: 9}
log: {level: debug, format: json}
tasks: {when_busy: steer, host_grace: 1h, images: true, documents: true}
push: {allowed_origins: ["https://hooks.example.org:8443"]}
`

func TestEverySettingCanBeSetInTheFile(t *testing.T) {
	t.Parallel()
	want := config.Config{
		HTTP: config.HTTP{Host: "::1", Port: 8080, Insecure: true, AllowedHosts: []string{"bridge.example.org", "10.0.0.1:7717"},
			AllowedOrigins: []string{"https://app.example.org"}, PublicURL: "https://bridge.example.org/x"},
		Limits:   config.Limits{Body: 2 << 20, Concurrency: 8, Result: 1 << 20},
		Queue:    config.Queue{Mode: "reject", Wait: 90 * time.Second, MaxCalls: 3, MaxBytes: 64 << 10},
		Approval: config.Approval{Timeout: 90 * time.Second},
		Resume:   config.Resume{Grace: 20 * time.Second},
		IdleExit: 5 * time.Minute,
		Exposure: config.Exposure{Deny: []string{"mcp__*", "bash"}, DenyMCPTools: true},
		Audit:    config.Audit{MaxBytes: 1 << 20, Keep: 9},
		Log:      config.Log{Level: slog.LevelDebug, Format: "json"},
		Tasks:    config.Tasks{WhenBusy: "steer", HostGrace: time.Hour, Images: true, Documents: true},
		Push:     config.Push{AllowedOrigins: []string{"https://hooks.example.org:8443"}},
	}
	got, problems := config.Load(write(t, everything), nil, nil)
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
	values, _ := config.ParseFile([]byte(everything))
	for _, k := range config.Keys() {
		if _, ok := values[k.Name]; !ok {
			t.Errorf("the file of this test does not set %s", k.Name)
		}
		if k.Doc == "" || k.Type == "" {
			t.Errorf("%s has no type or no documentation", k.Name)
		}
	}
}

func TestEverySettingCanBeSetInTheEnvironment(t *testing.T) {
	t.Parallel()
	env := []string{
		"A2A_BRIDGE_HTTP_HOST=::1", "A2A_BRIDGE_HTTP_PORT=8080", "A2A_BRIDGE_HTTP_INSECURE=true",
		"A2A_BRIDGE_HTTP_ALLOWED_HOSTS=bridge.example.org, 10.0.0.1:7717", "A2A_BRIDGE_HTTP_ALLOWED_ORIGINS=https://app.example.org",
		"A2A_BRIDGE_HTTP_PUBLIC_URL=https://bridge.example.org/x", "A2A_BRIDGE_LIMITS_BODY=2MiB", "A2A_BRIDGE_LIMITS_CONCURRENCY=8",
		"A2A_BRIDGE_LIMITS_RESULT=1048576", "A2A_BRIDGE_QUEUE_MODE=reject", "A2A_BRIDGE_QUEUE_WAIT=90s", "A2A_BRIDGE_QUEUE_MAX_CALLS=3",
		"A2A_BRIDGE_QUEUE_MAX_BYTES=64KiB", "A2A_BRIDGE_APPROVAL_TIMEOUT=90s", "A2A_BRIDGE_RESUME_GRACE=20s", "A2A_BRIDGE_RESUME_KEEP=0",
		"A2A_BRIDGE_IDLE_EXIT=5m", "A2A_BRIDGE_EXPOSURE_DENY=[mcp__*,bash]", "A2A_BRIDGE_EXPOSURE_DENY_MCP_TOOLS=true",
		"A2A_BRIDGE_AUDIT_MAX_BYTES=1MiB", "A2A_BRIDGE_AUDIT_KEEP=9", "A2A_BRIDGE_LOG_LEVEL=debug", "A2A_BRIDGE_LOG_FORMAT=json",
		"A2A_BRIDGE_TASKS_WHEN_BUSY=steer", "A2A_BRIDGE_TASKS_HOST_GRACE=1h", "A2A_BRIDGE_TASKS_IMAGES=true",
		"A2A_BRIDGE_TASKS_DOCUMENTS=true", "A2A_BRIDGE_PUSH_ALLOWED_ORIGINS=https://hooks.example.org:8443",
		"A2A_BRIDGE_TOKEN=not a setting", "A2A_BRIDGE_NAME=not one either", "PATH=/bin",
	}
	fromEnv, problems := config.Load("", env, nil)
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	fromFile, _ := config.Load(write(t, everything), nil, nil)
	if diff := cmp.Diff(fromFile, fromEnv); diff != "" {
		t.Errorf("the environment differs from the file (-file +env):\n%s", diff)
	}
}

func TestFlagsBeatTheEnvironmentWhichBeatsTheFile(t *testing.T) {
	t.Parallel()
	path := write(t, "http: {port: 1001}\nqueue: {max_calls: 1}\naudit: {keep: 1}\nexposure: {deny: [a]}\n")
	env := []string{"A2A_BRIDGE_HTTP_PORT=1002", "A2A_BRIDGE_QUEUE_MAX_CALLS=2", "A2A_BRIDGE_EXPOSURE_DENY=", "A2A_BRIDGE_LOG_LEVEL="}
	c, problems := config.Load(path, env, map[string]string{"http.port": "1003"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := []any{c.HTTP.Port, c.Queue.MaxCalls, c.Audit.Keep, c.Exposure.Deny}
	if diff := cmp.Diff([]any{1003, 2, 1, []string{"a"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProblemsNameTheLineAndTheRestCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []config.Problem
	}{
		{"a typo", "queue:\n  mod: reject\n", []config.Problem{{Line: 2, Key: "queue.mod", Text: "is not a setting; did you mean queue.mode?"}}},
		{"a typo in a section", "\nqeue:\n  mode: reject\n", []config.Problem{{Line: 2, Key: "qeue", Text: "is not a setting; see: a2a-bridge serve --help"}}},
		{"capitals", "http:\n  Port: 80\n", []config.Problem{{Line: 2, Key: "http.Port", Text: "is not a setting; did you mean http.port?"}}},
		{"nothing like it", "colour: blue\n", []config.Problem{{Line: 1, Key: "colour", Text: "is not a setting; see: a2a-bridge serve --help"}}},
		{"a wrong type", "http:\n  port: many\n", []config.Problem{{Line: 2, Key: "http.port", Text: `must be a number from 1 to 65535, not "many"`}}},
		{"out of range", "http:\n  port: 0\n", []config.Problem{{Line: 2, Key: "http.port", Text: `must be a number from 1 to 65535, not "0"`}}},
		{"a number for a duration", "queue:\n  wait: 60\n",
			[]config.Problem{{Line: 2, Key: "queue.wait", Text: `must be a duration from 0s to 1h, such as 10s or 5m, not "60"`}}},
		{"an idle time", "idle_exit: never\n",
			[]config.Problem{{Line: 1, Key: "idle_exit", Text: `must be auto, off or a duration from 1s to 720h, such as 10s or 5m, not "never"`}}},
		{"an ambiguous unit", "limits:\n  body: 1MB\n",
			[]config.Problem{{Line: 2, Key: "limits.body", Text: `must be a size from 1KiB to 24MiB, such as 16MiB, not "1MB"`}}},
		{"a choice", "queue:\n  mode: drop\n", []config.Problem{{Line: 2, Key: "queue.mode", Text: `must be one of queue, reject, not "drop"`}}},
		{"a bool", "http:\n  insecure: yes please\n", []config.Problem{{Line: 2, Key: "http.insecure", Text: `must be true or false, not "yes please"`}}},
		{"a text for a list", "exposure:\n  deny: bash\n", []config.Problem{{Line: 2, Key: "exposure.deny", Text: `must be a list, such as ["bash"]`}}},
		{"a list for a text", "log:\n  level: [info]\n", []config.Problem{{Line: 2, Key: "log.level", Text: "must be a single value (choice)"}}},
		{"a list in a list", "exposure:\n  deny:\n    - a\n    - [b]\n", []config.Problem{{Line: 4, Key: "exposure.deny", Text: "must be a list of texts"}}},
		{"a bad glob", "exposure:\n  deny: ['[']\n", []config.Problem{{Line: 2, Key: "exposure.deny", Text: `must hold globs such as mcp__*, not "["`}}},
		{"an origin with a path", "http:\n  allowed_origins: [https://a.example/x]\n",
			[]config.Problem{{Line: 2, Key: "http.allowed_origins", Text: `must hold origins such as https://app.example.org, without a path, not "https://a.example/x"`}}},
		{"a host with a scheme", "http:\n  allowed_hosts: [https://a.example]\n",
			[]config.Problem{{Line: 2, Key: "http.allowed_hosts", Text: `must hold host names such as bridge.example.org, not "https://a.example"`}}},
		{"a URL with a password", "http:\n  public_url: https://u:p@a.example\n",
			[]config.Problem{{Line: 2, Key: "http.public_url", Text: `must be a URL such as https://bridge.example.org, not "https://u:p@a.example"`}}},
		{"localhost", "http:\n  host: localhost\n",
			[]config.Problem{{Line: 2, Key: "http.host", Text: "must be an IP address: write 127.0.0.1 (or ::1), since localhost can mean either"}}},
		{"no value", "http:\n  port:\n", []config.Problem{{Line: 2, Key: "http.port", Text: "has no value"}}},
		{"a section without content", "http:\n  # port: 80\n", nil},
		{"a section with a value", "http: 80\n", []config.Problem{{Line: 1, Key: "http", Text: "must be followed by indented settings"}}},
		{"dots", "http.port: 80\n", []config.Problem{{Line: 1, Key: "http.port", Text: "must be written on two levels:\nhttp:\n  port: …"}}},
		{"twice", "http:\n  port: 80\n  port: 81\n", []config.Problem{{Line: 3, Key: "http.port", Text: "is set twice: first in line 2"}}},
		{"a section twice", "http:\n  port: 80\nhttp:\n  port: 81\n", []config.Problem{{Line: 3, Key: "http", Text: "is set twice: first in line 1"}}},
		{"an alias", "http: &x\n  port: 80\n", []config.Problem{{Line: 1, Key: "http", Text: "uses an anchor or alias, which are not supported here"}}},
		{"two documents", "log: {level: warn}\n---\nlog: {level: error}\n", []config.Problem{{Line: 2, Key: "", Text: "a second document starts here: the file holds one"}}},
		{"a list", "- http\n", []config.Problem{{Line: 1, Key: "", Text: "must hold settings such as\nhttp:\n  port: 7717"}}},
		{"empty", "", nil},
		{"comments", "# nothing\n", nil},
		{"beyond loopback", "http:\n  host: 0.0.0.0\n", []config.Problem{{Line: 2, Key: "http.host",
			Text: "is 0.0.0.0, which others can reach without TLS: set http.insecure: true as well, and put a TLS proxy in front"}}},
		{"two problems in order", "audit: {keep: 0}\nhttp:\n  port: x\n", []config.Problem{
			{Line: 1, Key: "audit.keep", Text: `must be a number from 1 to 100, not "0"`}, {Line: 3, Key: "http.port", Text: `must be a number from 1 to 65535, not "x"`}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, problems := config.Load(write(t, test.text+"\napproval: {timeout: 42s}\n"), nil, nil)
			if test.name == "a list" || test.name == "two documents" { // these spoil what follows
				c, problems = config.Load(write(t, test.text), nil, nil)
				c.Approval.Timeout = 42 * time.Second
			}
			if diff := cmp.Diff(test.want, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if c.Approval.Timeout != 42*time.Second {
				t.Errorf("a good setting beside a bad one is lost: %v", c.Approval.Timeout)
			}
			if c.HTTP.Host != "127.0.0.1" {
				t.Errorf("listens on %s", c.HTTP.Host)
			}
		})
	}
}

func TestFileThatIsNotYAMLGivesDefaultsAndItsLine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"http: {port: 80\n", "a: b: c\n", "\x00", "%YAML 9\n---\n"} {
		c, problems := config.Load(write(t, text), nil, nil)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Text, "is not YAML: ") {
			t.Errorf("Load(%q) problems = %v", text, problems)
		}
		if diff := cmp.Diff(config.Default(), c); diff != "" {
			t.Errorf("Load(%q) is not the default (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"http:\n  port: 80\n\tbad: tab\n": "line 3: is indented with a tab: YAML wants spaces",
		"http:\n  port: 80\n port: 81\n":  "line 2: is not YAML: did not find expected key",
	} {
		_, problems := config.Load(write(t, text), nil, nil)
		if len(problems) != 1 || problems[0].String() != want {
			t.Errorf("Load(%q) problems = %v, want %s", text, problems, want)
		}
	}
}

func TestProblemsOfEnvironmentAndFlagsNameTheirSource(t *testing.T) {
	t.Parallel()
	_, problems := config.Load("", []string{"A2A_BRIDGE_HTTP_PORT=x"}, map[string]string{"audit.keep": "-1", "audit.kep": "1", "http.host": "0.0.0.0"})
	want := []config.Problem{
		{Line: 0, Key: "http.port", Text: `must be a number from 1 to 65535, not "x" (from A2A_BRIDGE_HTTP_PORT)`, From: "A2A_BRIDGE_HTTP_PORT"},
		{Line: 0, Key: "audit.keep", Text: `must be a number from 1 to 100, not "-1" (from the command line)`, From: config.CommandLine},
		{Line: 0, Key: "audit.kep", Text: "is not a setting; did you mean audit.keep?", From: config.CommandLine},
		{Key: "http.host", From: config.CommandLine,
			Text: "is 0.0.0.0, which others can reach without TLS: set http.insecure: true as well, and put a TLS proxy in front"},
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFileThatCannotBeReadIsAProblemAndAMissingOneIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if c, problems := config.Load(filepath.Join(dir, "none.yaml"), nil, nil); len(problems) > 0 || !cmp.Equal(c, config.Default()) {
		t.Errorf("missing file: %v", problems)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := write(t, strings.Repeat("# comment\n", 30_000))
	for _, path := range []string{dir, fifo, large} {
		c, problems := config.Load(path, nil, nil)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Text, "cannot read the configuration file: ") {
			t.Errorf("Load(%s) problems = %v", path, problems)
		}
		if !cmp.Equal(c, config.Default()) {
			t.Errorf("Load(%s) is not the default", path)
		}
	}
}

func TestBeyondLoopbackNeedsInsecure(t *testing.T) {
	t.Parallel()
	for host, loopback := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true,
		"0.0.0.0": false, "::": false, "192.168.1.5": false} {
		if got := config.Loopback(host); got != loopback {
			t.Errorf("Loopback(%s) = %v", host, got)
		}
		c, problems := config.Load("", nil, map[string]string{"http.host": host})
		if refused := len(problems) == 1; refused == loopback {
			t.Errorf("http.host %s: %v", host, problems)
		}
		if !loopback && c.HTTP.Host != "127.0.0.1" {
			t.Errorf("http.host %s without http.insecure: listens on %s", host, c.HTTP.Host)
		}
		c, problems = config.Load("", nil, map[string]string{"http.host": host, "http.insecure": "true"})
		if len(problems) > 0 || c.HTTP.Host != host {
			t.Errorf("http.host %s with http.insecure: %s, %v", host, c.HTTP.Host, problems)
		}
	}
}

func TestDefaultsAreWrittenAsTheyAreShown(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 1: "1B", 1 << 10: "1KiB", 1536: "1536B", 16 << 20: "16MiB", 3 << 30: "3GiB"} {
		if got := config.FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Minute: "1m", 90 * time.Second: "1m30s", 2 * time.Hour: "2h", 10 * time.Second: "10s"} {
		if got := config.FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %s, want %s", d, got, want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte("http: &a\n  port: *a\n"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Add([]byte("<<: {http: 1}\n"))
	f.Add([]byte("exposure: {deny: [!!binary aGk=, 1, ~]}\n---\n...\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, problems := config.ParseFile(data)
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 2
		lines += strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029")
		for _, p := range problems {
			if p.Text == "" || p.Line < 0 || p.Line > lines {
				t.Errorf("problem %+v of a file with %d lines", p, lines)
			}
		}
		known := map[string]bool{}
		for _, k := range config.Keys() {
			known[k.Name] = true
		}
		for name := range values {
			if !known[name] {
				t.Errorf("value for the unknown setting %q", name)
			}
		}
	})
}
