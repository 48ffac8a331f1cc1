package service

import (
	"bytes"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAJournalRecordIsOneLineWithItsPriority(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := slog.New(newJournalHandler(&b, slog.LevelInfo)).With("part", "x")
	log.Debug("not shown")
	log.Info("hello", "text", "two\nlines")
	log.Warn("careful")
	log.Error("broken", slog.Group("at", "line", 3))
	want := "<6>msg=hello part=x text=\"two\\nlines\"\n" +
		"<4>msg=careful part=x\n" +
		"<3>msg=broken part=x at.line=3\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("the journal gets (-want +got)\n%s", diff)
	}
}

func TestALineAtATerminalIsForReading(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := slog.New(newTerminalHandler(&b, slog.LevelInfo))
	log.Debug("not shown")
	log.Info("ready", "url", "http://h/mcp", "activated", false)
	log.With("part", "x").Warn("careful", "why", "two words", "activated", true)
	log.WithGroup("at").Error("broken", "line", 3)
	got := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `).ReplaceAllString(b.String(), "TIME ")
	want := "TIME ready  url=http://h/mcp\n" +
		"TIME warning: careful  part=x why=\"two words\" activated=true\n" +
		"TIME error: broken  at.line=3\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the terminal gets (-want +got)\n%s", diff)
	}
}

func TestTheIdleClockStartsAnewWhenSomethingHappens(t *testing.T) {
	t.Parallel()
	var c idleClock
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const limit = 10 * time.Second
	for _, step := range []struct {
		after time.Duration
		idle  bool
		limit time.Duration
		want  bool
	}{
		{0, true, limit, false},
		{9 * time.Second, true, limit, false},
		{9500 * time.Millisecond, false, limit, false},
		{11 * time.Second, true, limit, false},
		{20 * time.Second, true, limit, false},
		{21 * time.Second, true, 0, false},
		{21 * time.Second, true, limit, true},
	} {
		if got := c.look(step.idle, at.Add(step.after), step.limit); got != step.want {
			t.Errorf("after %s: look(%t, limit %s) = %t, want %t", step.after, step.idle, step.limit, got, step.want)
		}
	}
}
