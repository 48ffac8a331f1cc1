package stdiohost

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// BuiltinConfig describes the host of the demo.
type BuiltinConfig struct {
	Name      string
	Dial      func(context.Context) (net.Conn, error)
	Version   string
	AppendTo  string // the file that append writes to
	OnWelcome func(hostlink.Welcome)
	Log       *slog.Logger
}

// Builtin makes the host that the demo attaches: echo answers with its text,
// append adds its text as one line to a file, which shows how often it ran.
func Builtin(cfg BuiltinConfig) *hostlink.Host {
	cwd, _ := os.Getwd() // without it the bridge finds a name
	h := hostlink.NewHost(hostlink.HostConfig{
		Dial: cfg.Dial,
		Hello: hostlink.Hello{Kind: "demo", Version: cfg.Version, Extension: cfg.Version, PID: os.Getpid(), CWD: cwd,
			Name: cfg.Name, State: hostlink.StateIdle},
		Run: func(_ context.Context, call hostlink.CallParams, _ hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
			return builtinCall(cfg.AppendTo, call)
		},
		OnWelcome: cfg.OnWelcome,
		Log:       cfg.Log,
	})
	h.SetTools(builtinTools())
	return h
}

func builtinTools() []bridge.Tool {
	const form = `{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":%t}}`
	definition := func(name, description string, readOnly bool) json.RawMessage {
		return fmt.Appendf(nil, form, name, description, readOnly)
	}
	return []bridge.Tool{
		{Name: "echo", Tier: bridge.TierRead, Source: "builtin", Definition: definition("echo", "Answers with the text.", true)},
		{Name: "append", Source: "builtin", Definition: definition("append", "Adds the text to a file as one line.", false)},
	}
}

func builtinCall(file string, call hostlink.CallParams) (json.RawMessage, *hostlink.Error) {
	var args struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(call.Args, &args); err != nil || args.Text == nil {
		return nil, &hostlink.Error{Kind: hostlink.KindBadArguments, Executed: bridge.ExecutedNo, Message: "text must be a string"}
	}
	if call.Tool == "echo" {
		return result(*args.Text, false), nil
	}
	if err := appendLine(file, *args.Text); err != nil {
		return errorResult(err.Error()), nil
	}
	return result("appended", false), nil
}

func appendLine(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("append a line: %w", err)
	}
	if _, err := f.WriteString(text + "\n"); err != nil {
		_ = f.Close() // the write error is the one that counts
		return fmt.Errorf("append a line: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("append a line: %w", err)
	}
	return nil
}
