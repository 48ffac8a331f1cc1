// Package packaging carries the systemd user units inside a2actl, so that a
// tarball, `go install` and a package all run the same ones.
//
// The files below systemd are what packages ship as they are. Units gives the
// same texts with another program to start; where they go, who owns them there
// and what the service manager is told is the caller's to know.
package packaging

import (
	"embed"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

//go:embed systemd/*.socket systemd/*.service systemd/*.d/*.conf
var files embed.FS

// The units. Starting HTTPSocket starts all sockets; stopping it stops
// everything.
const (
	HTTPSocket    = "a2a-bridge.socket"
	HostSocket    = "a2a-bridge-host.socket"
	ControlSocket = "a2a-bridge-control.socket"
	Service       = "a2a-bridge.service"
)

// Sandbox is the file that a user may mask.
const Sandbox = Service + ".d/50-sandbox.conf"

// Address is where HTTPSocket listens unless a drop-in says otherwise.
const (
	Host = "127.0.0.1"
	Port = 7717
)

// program is what the units of a package start.
const program = "/usr/bin/a2a-bridge"

// Unit is one file, by its name below the directory of user units.
type Unit struct {
	Name string
	Text string
}

// Units returns all unit files and drop-ins, changed so that the service
// starts the program at this absolute path, which CanStart must allow.
func Units(bridge string) []Unit {
	var out []Unit
	err := fs.WalkDir(files, "systemd", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		out = append(out, Unit{
			Name: strings.TrimPrefix(name, "systemd"+"/"),
			Text: strings.ReplaceAll(string(text), "ExecStart="+program+" ", "ExecStart="+word(bridge)+" "),
		})
		return nil
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	return out
}

// Dirs are the directories of drop-ins among the units.
func Dirs() []string {
	return []string{path.Dir(Sandbox), path.Dir(PortDropIn)}
}

// PortDropIn is the file that moves the HTTP port.
const PortDropIn = HTTPSocket + ".d/10-port.conf"

// PortText is its content for a port.
func PortText(port int) string {
	return "[Socket]\n" +
		"# Empty first: a list grows otherwise, and both ports would be open.\n" +
		"ListenStream=\n" +
		"ListenStream=" + Host + ":" + strconv.Itoa(port) + "\n"
}

// CanStart reports whether systemd takes a path as that of a program: it
// refuses quotes, backslashes and control characters, however they are written.
func CanStart(file string) bool {
	return utf8.ValidString(file) && !strings.ContainsFunc(file, func(r rune) bool {
		return strings.ContainsRune("\"'\\", r) || unicode.IsControl(r)
	})
}

// word writes such a path as one word of an ExecStart= line: blanks do not end
// it, and a % means itself.
func word(file string) string {
	if strings.Contains(file, " ") {
		file = `"` + file + `"`
	}
	return strings.ReplaceAll(file, "%", "%%")
}
