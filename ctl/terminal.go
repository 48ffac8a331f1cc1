package ctl

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// width is how many columns the output has: as COLUMNS says, else the
// terminal; 0 when there is none.
func (a *app) width() int {
	if n, err := strconv.Atoi(a.env("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return terminalWidth(a.out)
}

// watched reports whether what is said on stderr appears before a person.
func (a *app) watched() bool { return terminalWidth(a.errOut) > 0 }

// unknownWidth stands for a terminal that does not tell its size.
const unknownWidth = 80

// terminalWidth is 0 for anything but a terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0:
		return unknownWidth
	}
	return int(size.Col)
}
