package machine

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
)

// OMP is an installed omp.
type OMP struct {
	Path    string
	Version string // empty when it does not say, see Err
	Err     error
}

// FindOMP finds the omp that its user would start: in PATH, else where its
// installers put it, since a shell that ssh starts has a bare PATH.
func FindOMP(ctx context.Context, env func(string) string) (OMP, bool) {
	dirs := filepath.SplitList(env("PATH"))
	if home := env("HOME"); home != "" {
		for _, d := range []string{".bun/bin", ".local/bin", ".npm-global/bin"} {
			dirs = append(dirs, filepath.Join(home, d))
		}
	}
	dirs = append(dirs, "/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/bin")
	path, ok := lookPath("omp", dirs)
	if !ok {
		return OMP{}, false
	}
	o := OMP{Path: path}
	// omp is a script for bun, which stands beside it or in one of these places.
	search := "PATH=" + strings.Join(append([]string{filepath.Dir(path)}, dirs...), string(filepath.ListSeparator))
	said, err := run(ctx, []string{search, "HOME=" + env("HOME"), "NO_COLOR=1"}, path, "--version")
	if o.Err = err; err == nil {
		o.Version = version.FindString(said)
	}
	return o, true
}

var version = regexp.MustCompile(`\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?`)
