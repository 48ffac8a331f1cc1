package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/a2a-bridge/a2a-bridge/internal/audit"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string, change ...func(*audit.Config)) *audit.Ledger {
	t.Helper()
	cfg := audit.Config{Dir: dir, MaxBytes: 1 << 20, Keep: 2}
	for _, c := range change {
		c(&cfg)
	}
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func start(id string) bridge.CallStart {
	return bridge.CallStart{
		ID: bridge.CallID(id), At: time.Now().Round(0), Received: time.Now().Round(0), Peer: "laptop", Tool: "bash", Host: "app",
		Instance: "i1", ArgsBytes: 7, ArgsSHA256: "ab", Ref: bridge.Ref{Front: "mcp", Session: "s", RPC: json.RawMessage("1"), Token: "t"},
	}
}

func end(id string, s bridge.State) bridge.CallEnd {
	return bridge.CallEnd{ID: bridge.CallID(id), At: time.Now().Round(0), Peer: "laptop", Tool: "bash", Host: "app", State: s, Executed: bridge.ExecutedYes}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openIDs(l *audit.Ledger) []string {
	ids := []string{}
	for _, s := range l.Open() {
		ids = append(ids, string(s.ID))
	}
	return ids
}

var sorted = cmpopts.SortSlices(func(a, b string) bool { return a < b })

func TestOpenStartsAreFoundByTheNextProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir)
	must(t, l.Start(start("c_1"), true))
	must(t, l.Start(start("c_2"), true))
	must(t, l.Start(start("c_3"), false))
	must(t, l.End(end("c_2", bridge.Done)))
	want := l.Open()
	must(t, l.Close())

	again := open(t, dir)
	byID := cmpopts.SortSlices(func(a, b bridge.CallStart) bool { return a.ID < b.ID })
	if diff := cmp.Diff(want, again.Open(), byID); diff != "" {
		t.Errorf("open starts after a restart (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[bridge.State]int{bridge.Done: 1}, again.Today()); diff != "" {
		t.Errorf("counts after a restart:\n%s", diff)
	}
	if p := again.Problems(); len(p) > 0 {
		t.Errorf("problems of a sound ledger: %q", p)
	}
}

func TestDamageIsSetAsideAndNamed(t *testing.T) {
	t.Parallel()
	good := func(key string, v any) string {
		raw, _ := json.Marshal(map[string]any{key: v})
		return string(raw)
	}
	s1, s2 := good("start", start("c_1")), good("start", start("c_2"))
	for _, tt := range []struct {
		name     string
		file     string
		open     []string
		problems int
		aside    string
	}{
		{"torn last line", s1 + "\n" + s2[:40], []string{"c_1"}, 1, s2[:40]},
		{"last line only lacks its newline", s1 + "\n" + s2, []string{"c_1", "c_2"}, 0, ""},
		{"zeros of a file system after a crash", s1 + "\n" + strings.Repeat("\x00", 4096), []string{"c_1"}, 1, strings.Repeat("\x00", 4096)},
		{"garbage in the middle", s1 + "\n%%%\n" + s2 + "\n", []string{"c_1", "c_2"}, 1, ""},
		{"garbage only", "hello\nworld\n", []string{}, 1, "hello\nworld\n"},
		{"empty", "", []string{}, 0, ""},
		{"a line that ends like ours and is none", `{"start":{"id":"c_9","at":7}}` + "\n" + s1 + "\n", []string{"c_1"}, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "audit.jsonl"), []byte(tt.file), 0o600))
			l := open(t, dir)
			if diff := cmp.Diff(tt.open, openIDs(l), sorted); diff != "" {
				t.Errorf("open starts (-want +got):\n%s", diff)
			}
			if got := l.Problems(); len(got) != tt.problems {
				t.Errorf("problems = %q, want %d", got, tt.problems)
			}
			aside := ""
			if files, _ := filepath.Glob(filepath.Join(dir, "*.damaged-*")); len(files) == 1 {
				raw, _ := os.ReadFile(files[0])
				aside = string(raw)
			}
			if aside != tt.aside {
				t.Errorf("set aside %q, want %q", aside, tt.aside)
			}
			must(t, l.Start(start("c_new"), true))
			must(t, l.Close())
			if diff := cmp.Diff(append(tt.open, "c_new"), openIDs(open(t, dir)), sorted); diff != "" {
				t.Errorf("open starts after writing on (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRotationCarriesOpenStartsAndCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := func(c *audit.Config) { c.MaxBytes = 1 }
	l := open(t, dir, small)
	must(t, l.Start(start("c_open"), true))
	const calls = 600 // several files of 64 KiB
	for i := range calls {
		id := fmt.Sprintf("c_%d", i)
		must(t, l.Start(start(id), false))
		must(t, l.End(end(id, bridge.Done)))
	}
	must(t, l.Close())
	for _, name := range []string{"audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Size() > 64<<10 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, mode %v", name, info.Size(), info.Mode())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "audit.jsonl.3")); err == nil {
		t.Error("a third rotated file is kept")
	}
	l = open(t, dir, small)
	if diff := cmp.Diff([]string{"c_open"}, openIDs(l)); diff != "" {
		t.Errorf("open starts:\n%s", diff)
	}
	if got := l.Today()[bridge.Done]; got != calls {
		t.Errorf("done today = %d, want %d", got, calls)
	}
	must(t, l.End(end("c_open", bridge.Unknown)))
	r, err := l.Show("c_open")
	must(t, err)
	if r.Start == nil || r.End == nil || r.End.State != bridge.Unknown {
		t.Errorf("Show = %+v, want its start and its end", r)
	}
}

func TestNothingIsLostWhenARotationIsCutShort(t *testing.T) {
	t.Parallel()
	line, _ := json.Marshal(map[string]any{"start": start("c_1")})
	line = append(line, '\n')
	for name, files := range map[string][]string{
		"before the old file moved":  {"audit.jsonl", "audit.jsonl.new"},
		"after the old file moved":   {"audit.jsonl.1", "audit.jsonl.new"},
		"before anything was copied": {"audit.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, f := range files {
				must(t, os.WriteFile(filepath.Join(dir, f), line, 0o600))
			}
			if diff := cmp.Diff([]string{"c_1"}, openIDs(open(t, dir))); diff != "" {
				t.Errorf("open starts:\n%s", diff)
			}
		})
	}
}

func TestRecentAndShow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, func(c *audit.Config) { c.MaxBytes, c.Keep = 256<<10, 8 })
	const calls = 1500 // more than are remembered, in more than one file
	for i := range calls {
		id := fmt.Sprintf("c_%d", i)
		if i%3 > 0 {
			must(t, l.Start(start(id), false))
		}
		must(t, l.End(end(id, bridge.Done)))
	}
	late := end("c_1499", bridge.Done)
	late.Late = true
	must(t, l.End(late))
	for _, again := range []bool{false, true} {
		if again {
			must(t, l.Close())
			l = open(t, dir)
		}
		for _, n := range []int{1, 10, 1000} {
			got, err := l.Recent(n)
			must(t, err)
			if len(got) != n {
				t.Fatalf("Recent(%d) has %d", n, len(got))
			}
			for i, r := range got {
				if want := fmt.Sprintf("c_%d", calls-1-i); string(r.ID) != want || r.End == nil {
					t.Fatalf("Recent(%d)[%d] = %s, want %s", n, i, r.ID, want)
				}
			}
			if got[0].Late == nil || got[0].Start == nil {
				t.Errorf("the newest = %+v, want its late end too", got[0])
			}
		}
		old, err := l.Show("c_1")
		must(t, err)
		if old.Start == nil || old.End == nil {
			t.Errorf("Show of an old call = %+v", old)
		}
		if _, err := l.Show("c_none"); !errors.Is(err, bridge.NotFound) {
			t.Errorf("Show of an unknown call: %v, want NotFound", err)
		}
		if got := l.Today()[bridge.Done]; got != calls {
			t.Errorf("done today = %d, want %d", got, calls)
		}
	}
}

func TestCountsStartAgainAtMidnight(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 23, 59, 0, 0, time.Local)
	l := open(t, t.TempDir(), func(c *audit.Config) { c.Now = func() time.Time { return now } })
	e := end("c_1", bridge.Done)
	e.At = now
	must(t, l.End(e))
	if got := l.Today()[bridge.Done]; got != 1 {
		t.Errorf("before midnight: %d, want 1", got)
	}
	now = now.Add(2 * time.Minute)
	if got := l.Today(); len(got) != 0 {
		t.Errorf("after midnight: %v, want none", got)
	}
	e.ID, e.At, e.State = "c_2", now, bridge.Failed
	must(t, l.End(e))
	if diff := cmp.Diff(map[bridge.State]int{bridge.Failed: 1}, l.Today()); diff != "" {
		t.Error(diff)
	}
}

func TestManyAtOnceAreAllWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, func(c *audit.Config) { c.MaxBytes, c.Keep = 64<<10, 100 })
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			id := fmt.Sprintf("c_%d", i)
			if err := l.Start(start(id), i%2 == 0); err != nil {
				t.Error(err)
			}
			if err := l.End(end(id, bridge.Done)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, l.Close())
	l = open(t, dir, func(c *audit.Config) { c.Keep = 100 })
	if n := l.Today()[bridge.Done]; n != 400 || len(l.Open()) != 0 {
		t.Errorf("%d ends, %d open; want 400 and 0", n, len(l.Open()))
	}
}

func TestEffectsAreRefusedWhileTheFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	must(t, os.WriteFile(dir, []byte("a file where the directory should be"), 0o600))
	now := time.Now()
	l, err := audit.Open(audit.Config{Dir: dir, Now: func() time.Time { return now }})
	if err == nil {
		t.Fatal("Open of a directory that cannot be: no error")
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.Start(start("c_1"), true); !errors.Is(err, bridge.LedgerFault) {
		t.Errorf("Start = %v, want a LedgerFault", err)
	}
	if err := l.End(end("c_2", bridge.Done)); !errors.Is(err, bridge.LedgerFault) {
		t.Errorf("End = %v, want a LedgerFault", err)
	}
	if len(l.Problems()) == 0 {
		t.Error("no problem is shown")
	}
	if strings.Contains(strings.Join(l.Problems(), " "), dir) {
		t.Error("a problem shows a path")
	}
	must(t, os.Remove(dir))
	now = now.Add(time.Minute)
	if err := l.Start(start("c_3"), true); err != nil {
		t.Errorf("Start once the directory can be: %v", err)
	}
	if p := l.Problems(); len(p) > 0 {
		t.Errorf("problems afterwards: %q", p)
	}
	must(t, l.Close())
	raw, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	must(t, err)
	if !bytes.Contains(raw, []byte(`{"end":{"id":"c_2"`)) {
		t.Errorf("the end from before is missing in %s", raw)
	}
}

func TestTheFileIsPrivateWhateverItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	must(t, os.WriteFile(path, nil, 0o666))
	open(t, dir)
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode = %v, want 0600", got)
	}
}

func FuzzAnyFileCanBeOpened(f *testing.F) {
	line, _ := json.Marshal(map[string]any{"start": start("c_1")})
	f.Add(line)
	f.Add(append(line, '\n'))
	f.Add([]byte("{\"end\":{\"id\":\"c_1\",\"at\":\"2026-01-02T03:04:05Z\",\"state\":\"done\"}}\n{\"mark\":{\"day\":\"2026-01-02\",\"counts\":{\"done\":3}}}\n"))
	f.Add([]byte("\n\n{}\n\x00\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "audit.jsonl"), file, 0o600))
		l := open(t, dir)
		before := len(l.Open())
		must(t, l.Start(start("c_fresh"), false))
		must(t, l.Close())
		if after := openIDs(open(t, dir)); len(after) < before {
			t.Errorf("open starts went from %d to %v", before, after)
		}
	})
}
