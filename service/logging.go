package service

import (
	"context"
	"io"
	"log/slog"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/a2a-bridge/a2a-bridge/internal/config"
)

// newLog writes as the setting says. Under the journal a record is one line
// with a syslog priority and without time and level, which the journal has
// itself; at a terminal it is made for reading; elsewhere it is slog's text or
// JSON.
func newLog(w io.Writer, format string, level slog.Leveler, terminal bool) *slog.Logger {
	underJournal, err := journal.StderrIsJournalStream()
	switch {
	case format == config.FormatJSON:
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	case format == config.FormatAuto && err == nil && underJournal:
		return slog.New(newJournalHandler(w, level))
	case format == config.FormatAuto && terminal:
		return slog.New(newTerminalHandler(w, level))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// journalHandler picks one of four text handlers, each with its priority.
type journalHandler struct {
	level  slog.Leveler
	byPrio [4]slog.Handler
}

// priorities go with byPrio: error, warning, info, debug.
var priorities = [4]string{"<3>", "<4>", "<6>", "<7>"}

func newJournalHandler(w io.Writer, level slog.Leveler) *journalHandler {
	h := &journalHandler{level: level}
	for i, p := range priorities {
		h.byPrio[i] = slog.NewTextHandler(prefixWriter{p, w}, &slog.HandlerOptions{
			Level: slog.LevelDebug,
			ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
					return slog.Attr{}
				}
				return a
			},
		})
	}
	return h
}

func (h *journalHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	i := 3
	switch {
	case r.Level >= slog.LevelError:
		i = 0
	case r.Level >= slog.LevelWarn:
		i = 1
	case r.Level >= slog.LevelInfo:
		i = 2
	}
	return h.byPrio[i].Handle(ctx, r)
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.each(func(in slog.Handler) slog.Handler { return in.WithAttrs(attrs) })
}

func (h *journalHandler) WithGroup(name string) slog.Handler {
	return h.each(func(in slog.Handler) slog.Handler { return in.WithGroup(name) })
}

func (h *journalHandler) each(f func(slog.Handler) slog.Handler) slog.Handler {
	out := &journalHandler{level: h.level}
	for i, in := range h.byPrio {
		out.byPrio[i] = f(in)
	}
	return out
}

// prefixWriter puts the priority before each record; slog writes a record with
// one Write.
type prefixWriter struct {
	prefix string
	w      io.Writer
}

func (p prefixWriter) Write(b []byte) (int, error) {
	if _, err := p.w.Write(append([]byte(p.prefix), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
