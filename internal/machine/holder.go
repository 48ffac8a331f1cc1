package machine

import (
	"fmt"
	"os"
	"strings"
	"unicode"
)

// Holder is who listens on a port.
type Holder struct {
	PID     int    // 0 when it is not our process, or cannot be found
	UID     int    //
	Name    string // of the program
	Command string // its command line, cut; untrusted text without control characters
}

// maxCommand bounds what is shown of a command line.
const maxCommand = 80

// String says it in the words of a message: "node (pid 4121, yours): node
// server.js".
func (h Holder) String() string {
	switch {
	case h.PID != 0:
		return fmt.Sprintf("%s (pid %d, yours): %s", h.Name, h.PID, h.Command)
	case h.UID == os.Geteuid():
		return "one of your processes"
	}
	return fmt.Sprintf("a process of another user (uid %d)", h.UID)
}

// printable drops control characters and cuts foreign text.
func printable(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			r = ' '
		}
		if n++; n > most {
			return strings.TrimSpace(b.String()) + "…"
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
