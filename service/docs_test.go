package service_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/a2a-bridge/a2a-bridge/ctl"
	"github.com/a2a-bridge/a2a-bridge/service"
)

// documents are the pages that name files and commands.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../README.md", "../internal/README.md", "../internal/decisions/*.md", "../.github/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out[f] = string(raw)
		}
	}
	if len(out) == 0 {
		t.Fatal("there are no documents")
	}
	return out
}

var (
	linkTarget = regexp.MustCompile(`\]\(([^)#\s]+)`)
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	repoPath   = regexp.MustCompile(`^(cmd|service|ctl|packaging|contrib|internal|\.github|\.ci)/[\w./*-]+$`)
)

func TestEveryPathThatTheDocumentsNameExists(t *testing.T) {
	t.Parallel()
	for file, text := range documents(t) {
		for _, m := range linkTarget.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			}
		}
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if !repoPath.MatchString(m[1]) {
				continue
			}
			if hits, err := filepath.Glob(filepath.Join("..", m[1])); err != nil || len(hits) == 0 {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
}

func TestEveryCommandThatTheDocumentsNameExists(t *testing.T) {
	t.Parallel()
	roots := map[string]*cobra.Command{"a2actl": ctl.Root(), "a2a-bridge": service.Root()}
	found := 0
	for file, text := range documents(t) {
		for _, line := range commandLines(text) {
			words := strings.Fields(line)
			root, ok := roots[words[0]]
			if !ok {
				continue
			}
			found++
			if why := wrongCommand(root, words[1:]); why != "" {
				t.Errorf("%s says %q: %s", file, line, why)
			}
		}
	}
	if found == 0 {
		t.Error("no document names a command")
	}
}

// commandLines are the code spans, and the lines of code blocks.
func commandLines(text string) []string {
	var out []string
	block := false
	for _, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			block = !block
			continue
		}
		var found []string
		if block {
			found = []string{strings.TrimPrefix(trimmed, "$ ")}
		} else {
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				found = append(found, m[1])
			}
		}
		for _, f := range found {
			f = strings.TrimPrefix(f, "go run ./cmd/")
			if f, _, _ = strings.Cut(f, " #"); strings.HasPrefix(f, "a2actl ") || strings.HasPrefix(f, "a2a-bridge ") {
				out = append(out, f)
			}
		}
	}
	return out
}

// wrongCommand walks the words down the tree and looks the flags up.
func wrongCommand(root *cobra.Command, words []string) string {
	cmd := root
	for _, w := range words {
		switch {
		case strings.ContainsAny(w, "|>&;") || w == "--":
			return ""
		case strings.HasPrefix(w, "-"):
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			lookup := func(fs *pflag.FlagSet) bool {
				return fs.Lookup(name) != nil || len(name) == 1 && fs.ShorthandLookup(name) != nil
			}
			if name != "help" && !lookup(cmd.Flags()) && !lookup(cmd.InheritedFlags()) && !lookup(cmd.PersistentFlags()) {
				return cmd.CommandPath() + " has no flag " + w
			}
		case cmd.HasSubCommands():
			next, _, err := cmd.Find([]string{w})
			if w == "…" || w == "..." {
				return ""
			}
			if err != nil || next == cmd {
				return cmd.CommandPath() + " has no command " + w
			}
			cmd = next
		}
	}
	return ""
}
