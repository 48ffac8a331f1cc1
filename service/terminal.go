package service

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// terminalHandler writes what a person at a terminal reads: the time of day,
// the level when it is more than news, the message, and what belongs to it.
//
//	23:05:13  ready  url=http://127.0.0.1:7717/mcp pid=4121
//	23:06:02  warning: requests refused  unknown=1
type terminalHandler struct {
	level slog.Leveler
	rest  slog.Handler // writes the attributes to the page's buffer
	page  *page
}

// page is where the handlers of one log write.
type page struct {
	w      io.Writer
	mu     sync.Mutex // guards buffer, and keeps lines whole
	buffer bytes.Buffer
}

func newTerminalHandler(w io.Writer, level slog.Leveler) *terminalHandler {
	p := &page{w: w}
	return &terminalHandler{level: level, page: p, rest: slog.NewTextHandler(&p.buffer, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			head := len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey)
			if no, isBool := a.Value.Any().(bool); head || isBool && !no {
				return slog.Attr{} // what is not so goes without saying
			}
			return a
		},
	})}
}

func (h *terminalHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *terminalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.page.mu.Lock()
	defer h.page.mu.Unlock()
	h.page.buffer.Reset()
	if err := h.rest.Handle(ctx, r); err != nil {
		return err
	}
	line := r.Time.Format(time.TimeOnly) + "  " + levelWord(r.Level) + r.Message
	if attrs := strings.TrimSpace(h.page.buffer.String()); attrs != "" {
		line += "  " + attrs
	}
	_, err := io.WriteString(h.page.w, line+"\n")
	return err
}

func levelWord(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error: "
	case l >= slog.LevelWarn:
		return "warning: "
	case l < slog.LevelInfo:
		return "debug: "
	}
	return ""
}

func (h *terminalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &terminalHandler{level: h.level, page: h.page, rest: h.rest.WithAttrs(attrs)}
}

func (h *terminalHandler) WithGroup(name string) slog.Handler {
	return &terminalHandler{level: h.level, page: h.page, rest: h.rest.WithGroup(name)}
}
