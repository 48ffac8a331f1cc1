package service_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/a2a-bridge/a2a-bridge/"

// all stands for every package of this module but those after it.
const all = "*"

// mayImport is the map of the packages: what each may import from this module
// in the files that are built into programs. A new package or arrow belongs
// here, with its reason in internal/README.md.
var mayImport = map[string][]string{
	"cmd/a2a-bridge":      {"service"},
	"cmd/a2actl":          {"ctl"},
	"service":             {all, "ctl", "internal/bridgetest"},
	"ctl":                 {"internal/bridge", "internal/config", "internal/control", "internal/localsock", "internal/auth", "internal/stdiohost", "internal/probe", "internal/machine", "contrib", "packaging", "service"},
	"internal/bridge":     {},
	"internal/config":     {"internal/bridge"},
	"internal/localsock":  {"internal/bridge"},
	"internal/hostlink":   {"internal/bridge"},
	"internal/auth":       {"internal/bridge"},
	"internal/audit":      {"internal/bridge"},
	"internal/store":      {"internal/bridge"},
	"internal/extract":    {},
	"internal/hub":        {"internal/bridge", "internal/hostlink"},
	"internal/stdiohost":  {"internal/bridge", "internal/hostlink"},
	"internal/probe":      {"internal/bridge"},
	"internal/machine":    {},
	"internal/mcpfront":   {"internal/bridge"},
	"internal/a2afront":   {"internal/bridge", "internal/a2awire"},
	"internal/a2awire":    {},
	"internal/remote":     {"internal/bridge", "internal/a2awire"},
	"internal/control":    {"internal/bridge"},
	"internal/bridgetest": {all, "ctl"},
	"internal/bench":      {all},
	"internal/e2e":        {all},
	"contrib":             {"internal/bridge"},
	"packaging":           {},
}

// onlyIn are arrows that one file may have and its package may not.
var onlyIn = map[string]string{"ctl service": "demo.go"}

// home is where a library may be imported, besides tests.
var home = map[string][]string{
	"github.com/spf13/cobra":               {"ctl", "service"},
	"github.com/spf13/viper":               {"internal/config"},
	"github.com/mark3labs/mcp-go":          {"internal/mcpfront"},
	"github.com/prometheus/":               {"internal/control"},
	"database/sql":                         {"internal/store"},
	"github.com/coreos/go-systemd/v22/act": {"internal/localsock"},
}

// source is one Go file of the module.
type source struct {
	pkg  string // directory, with slashes
	name string
	test bool
	file *ast.File
}

// sources parses every file. It opens them itself: a list from the go tool
// would let this test pass from the cache after a violation.
func sources(t *testing.T, mode parser.Mode) []source {
	t.Helper()
	root := ".."
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if d.IsDir() {
			own, err := os.Stat(filepath.Join(path, "go.mod"))
			skip := d.Name() == "testdata" || d.Name() == "node_modules" || path != root && strings.HasPrefix(d.Name(), ".") || path != root && err == nil && own != nil
			if skip {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, mode)
		if err != nil {
			return err
		}
		out = append(out, source{pkg: filepath.ToSlash(filepath.Dir(rel)), name: d.Name(), test: strings.HasSuffix(path, "_test.go"), file: f})
		return nil
	})
	if err != nil {
		t.Fatalf("read the module: %v", err)
	}
	return out
}

func imports(t *testing.T, s source) []string {
	t.Helper()
	var out []string
	for _, i := range s.file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatalf("%s/%s: %v", s.pkg, s.name, err)
		}
		out = append(out, path)
	}
	return out
}

func allowed(from, to, file string) bool {
	if only, ok := onlyIn[from+" "+to]; ok && only != file {
		return false
	}
	list := mayImport[from]
	if len(list) > 0 && list[0] == all {
		return !slices.Contains(list[1:], to)
	}
	return slices.Contains(list, to)
}

func TestArrowsBetweenPackagesPointDown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range sources(t, parser.ImportsOnly) {
		seen[s.pkg] = true
		if _, ok := mayImport[s.pkg]; !ok {
			t.Errorf("%s is a package that the map does not have", s.pkg)
			continue
		}
		for _, path := range imports(t, s) {
			to, ours := strings.CutPrefix(path, module)
			switch {
			case !ours || s.test || allowed(s.pkg, to, s.name):
			default:
				t.Errorf("%s/%s imports %s, which the map does not allow", s.pkg, s.name, to)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d packages were found: is this the module's root?", len(seen))
	}
}

func TestLibrariesStayBehindOnePackage(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, parser.ImportsOnly) {
		if s.test || s.pkg == "internal/bridgetest" || s.pkg == "internal/bench" || s.pkg == "internal/e2e" {
			continue
		}
		for _, path := range imports(t, s) {
			for prefix, homes := range home {
				if strings.HasPrefix(path, prefix) && !slices.Contains(homes, s.pkg) {
					t.Errorf("%s/%s imports %s, whose home is %v", s.pkg, s.name, path, homes)
				}
			}
			if s.pkg == "service" && path == "github.com/spf13/cobra" && s.name != "command.go" {
				t.Errorf("service/%s imports cobra, which belongs into command.go", s.name)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	comment := map[string]bool{}
	for _, s := range sources(t, parser.PackageClauseOnly|parser.ParseComments) {
		if !s.test {
			comment[s.pkg] = comment[s.pkg] || s.file.Doc != nil && len(strings.Fields(s.file.Doc.Text())) > 5
		}
	}
	for pkg, ok := range comment {
		if !ok {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}
