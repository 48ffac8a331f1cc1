package ctl

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// clean makes foreign text safe for a terminal: whatever is not printable is
// shown as an escape, so that a name can neither move the cursor nor fake a
// line.
func clean(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unprintable(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

// span is a duration as people say it: 6 s, 5 min, 1 h 12 min, 3 days.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		h, m := int(d.Hours()), int(d.Minutes())%60
		if m == 0 || h >= 3 {
			return fmt.Sprintf("%d h", h)
		}
		return fmt.Sprintf("%d h %d min", h, m)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// left is how long there is: 12 s, 3 min 40 s, 2 h.
func left(d time.Duration) string {
	d = max(d, 0)
	if m, s := int(d.Minutes()), int(d.Seconds())%60; d >= time.Minute && d < time.Hour && s > 0 {
		return fmt.Sprintf("%d min %d s", m, s)
	}
	return span(d)
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ago is a moment in the past.
func ago(now, t time.Time) string {
	if now.Sub(t) < time.Second {
		return "now"
	}
	return span(now.Sub(t)) + " ago"
}

// made is how long ago something was made, as part of a sentence.
func made(now, t time.Time) string {
	if now.Sub(t) < time.Second {
		return "just now"
	}
	return ago(now, t)
}

// pseudo is the end of a version that no release has: a time and a commit.
var pseudo = regexp.MustCompile(`[.-]\d{14}-([0-9a-f]{7})[0-9a-f]{5}(\+dirty)?$`)

// shortVersion is a version as people need it: a build between releases is
// named by its commit.
func shortVersion(v string) string {
	if m := pseudo.FindStringSubmatch(v); m != nil {
		return "dev " + m[1]
	}
	return clean(v)
}

// in is a moment in the future; one that has passed is over.
func in(now, t time.Time) string {
	if !t.After(now) {
		return "over"
	}
	return "in " + span(t.Sub(now))
}

// atMost lists the first n of the words, and how many more there are.
func atMost(words []string, n int, sep string) string {
	if len(words) <= n {
		return strings.Join(words, sep)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], sep), len(words)-n)
}

// labelWidth is the first column of the pages that have one.
const labelWidth = 8

// writeSection writes lines with a label before the first.
func writeSection(b *strings.Builder, label string, lines []string) {
	for _, l := range lines {
		fmt.Fprintf(b, "%-*s%s\n", labelWidth, label, l)
		label = ""
	}
}

func section(label string, lines []string) string {
	var b strings.Builder
	writeSection(&b, label, lines)
	return b.String()
}

// columns lines up rows, three spaces apart; a column that is empty in every
// row takes no room. Cells must be clean already.
func columns(rows [][]string) []string {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(rows))
	for r, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			if width[i] > 0 {
				b.WriteString(cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+columnGap))
			}
		}
		lines[r] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

const columnGap = 3

// table lines up rows under a header (nil: none). Where that is wider than the
// terminal (0: unknown), each row becomes a paragraph: its first cell, then the
// others behind their column's name.
func table(width int, header []string, rows [][]string) []string {
	all := rows
	if header != nil {
		all = append([][]string{header}, rows...)
	}
	lines := columns(all)
	if width == 0 || widest(lines) <= width {
		return lines
	}
	lines = lines[:0]
	for _, row := range rows {
		var parts []string
		for i, cell := range row {
			switch {
			case cell == "":
			case header != nil && i > 0:
				parts = append(parts, strings.ToLower(header[i])+" "+cell)
			default:
				parts = append(parts, cell)
			}
		}
		lines = append(lines, flow(width, "  ", parts)...)
	}
	return lines
}

// flow puts as many parts on a line as fit, and begins every later line with a
// gap. A part is never broken.
func flow(width int, gap string, parts []string) []string {
	var lines []string
	for _, p := range parts {
		last := len(lines) - 1
		switch {
		case last < 0:
			lines = append(lines, p)
		case width == 0 || utf8.RuneCountInString(lines[last]+gap+p) <= width:
			lines[last] += gap + p
		default:
			lines = append(lines, "  "+p)
		}
	}
	return lines
}

func widest(lines []string) int {
	most := 0
	for _, l := range lines {
		most = max(most, utf8.RuneCountInString(l))
	}
	return most
}

// deref reads a value that may not be known.
func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
