// Package contrib carries the omp extension inside the binaries, so that `a2actl omp install` needs no network and no
// package manager, and the extension always has the version of the program that installed it.
//
// It knows the extension's files and how a copy of them is put in place, compared and taken away. Where omp looks for
// extensions is the caller's to know.
package contrib

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

//go:embed omp-extension/package.json omp-extension/src/*.ts
var files embed.FS

// Name is the extension's name, and of the directory it is installed in.
const Name = "a2a-bridge"

// ErrForeign is why a directory is left alone: something that is not this extension is in it.
var ErrForeign = errors.New("something else is there")

// Installed says what a directory holds.
type Installed struct {
	Present bool   // this extension, in whatever version
	Same    bool   // and file for file the one in this binary
	Linked  bool   // the directory is a link: somebody works on the extension there
	Version string // of what is there
}

// Extension returns the files of the extension: package.json and src.
func Extension() fs.FS {
	sub, err := fs.Sub(files, "omp-extension")
	if err != nil {
		panic(err) // the name above is a constant
	}
	return sub
}

// Version is what the extension calls itself once it is installed: the version of this program, as the daemon says it.
func Version() string { return bridge.Version() }

// versionFile holds what the extension says of itself. The one in the repository names the release that is worked on,
// like package.json.
const versionFile = "src/version.ts"

var versionLine = regexp.MustCompile(`EXTENSION_VERSION = "([^"]*)"`)

// asInstalled is a file of the extension with this program's version in it.
func asInstalled(path string) ([]byte, error) {
	data, err := fs.ReadFile(Extension(), path)
	if path == versionFile {
		data = versionLine.ReplaceAllLiteral(data, []byte(fmt.Sprintf("EXTENSION_VERSION = %q", Version())))
	}
	return data, err
}

type manifest struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// readManifest reads package.json, and the version that the sources say if they do.
func readManifest(dir fs.FS) (manifest, error) {
	var m manifest
	data, err := fs.ReadFile(dir, "package.json")
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("read package.json: %w", err)
	}
	if data, err := fs.ReadFile(dir, versionFile); err == nil {
		if said := versionLine.FindSubmatch(data); said != nil {
			m.Version = string(said[1])
		}
	}
	return m, nil
}

// Look tells what is in the directory. A missing one holds nothing; anything but this extension is ErrForeign.
func Look(dir string) (Installed, error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Installed{}, nil
	}
	if err != nil {
		return Installed{}, err
	}
	m, err := readManifest(os.DirFS(dir))
	if err != nil || m.Name != Name {
		return Installed{}, fmt.Errorf("%w: %s", ErrForeign, dir)
	}
	same, err := sameFiles(dir)
	if err != nil {
		return Installed{}, err
	}
	return Installed{Present: true, Same: same, Linked: info.Mode()&fs.ModeSymlink != 0, Version: m.Version}, nil
}

// Install puts the extension into the directory, in place of an older copy. A linked directory is left as it is. An
// omp that runs keeps what it has loaded.
func Install(dir string) error {
	there, err := Look(dir)
	if err != nil {
		return err
	}
	if there.Same || there.Linked {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	stage, err := os.MkdirTemp(parent, "."+Name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage) // empty or gone when all went well
	fresh := filepath.Join(stage, "new")
	if err := os.CopyFS(fresh, Extension()); err != nil {
		return fmt.Errorf("write the extension: %w", err)
	}
	version, err := asInstalled(versionFile)
	if err == nil {
		err = os.WriteFile(filepath.Join(fresh, versionFile), version, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the extension: %w", err)
	}
	if there.Present {
		if err := os.Rename(dir, filepath.Join(stage, "old")); err != nil {
			return err
		}
	}
	return os.Rename(fresh, dir)
}

// Remove takes the extension away; of a linked one, only the link.
func Remove(dir string) error {
	there, err := Look(dir)
	if err != nil || !there.Present {
		return err
	}
	if there.Linked {
		return os.Remove(dir)
	}
	return os.RemoveAll(dir)
}

// sameFiles reports whether every file of the extension is in the directory as Install would write it, and no other
// source is.
func sameFiles(dir string) (bool, error) {
	want := 0
	same := true
	err := fs.WalkDir(Extension(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		want++
		ours, err := asInstalled(path)
		if err != nil {
			return err
		}
		theirs, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		same = same && err == nil && bytes.Equal(ours, theirs)
		return nil
	})
	if err != nil {
		return false, err
	}
	sources, err := filepath.Glob(filepath.Join(dir, "src", "*.ts"))
	return same && len(sources)+1 == want, err // and package.json
}
