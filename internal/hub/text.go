package hub

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// maxDetail bounds a host's own words in a text.
const maxDetail = 2000

// text is what a caller reads about a call that has no result. Each says
// whether the tool ran, whether to call again, and who must do what; it names
// the call, and never a path of the owner's disk.
func (h *Hub) text(c *call, e ending) string {
	tool := "`" + printable(c.Tool, maxShown) + "`"
	host := h.noun(c)
	var s string
	switch e.kind {
	case bridge.NoHost:
		return h.noHostText(c, e)
	case bridge.QueueFull:
		s = "Not executed: too many calls wait for this " + host.long + " already. Calling again in a moment is safe."
	case bridge.Paused:
		s = "Not executed: the owner paused this bridge. Calling again is safe once they resume it."
		if _, until := h.pausedUntil(); !until.IsZero() {
			s = fmt.Sprintf("Not executed: the owner paused this bridge for another %s. Calling again after that is safe.", durationText(until.Sub(h.now())))
		}
	case bridge.Stopping:
		s = "Not executed: the bridge is restarting. Calling again is safe."
	case bridge.Moved:
		s = fmt.Sprintf("Not executed: this bridge now leads to the %s %q (it was %q). Its files and directory differ. Call again to use %q.",
			h.nounOf(h.names.Main).long, h.names.Main, e.detail, h.names.Main)
	case bridge.ToolUnavailable:
		s = "Not executed: no tool " + tool + " is available here to this token. List the tools to see those that are; calling again alone will not help."
	case bridge.BadArguments:
		s = "Not executed: the arguments of " + tool + " are not valid: " + ownLines(sentence(e.detail)) + "Correct the arguments and call again."
	case bridge.TooLarge:
		s = "Not executed: the arguments of " + tool + " are too large (" + bytesText(c.size()) + "). Send less; calling again alone will not help."
	case bridge.Denied:
		s = "Not executed: " + tool + " was denied by the owner or their rules: " + sentence(e.detail) + " Ask them before calling again."
	case bridge.NotApproved:
		s = fmt.Sprintf("Not executed: the owner did not approve %s within %s. Ask them before calling again.", tool, durationText(c.approval))
		if e.executed != bridge.ExecutedNo {
			s = fmt.Sprintf("May have run: the owner did not approve %s within %s, and %s does not say whether it has started. Look at its effect before calling again.",
				tool, durationText(c.approval), host.short)
		}
	case bridge.CallerGone:
		s = pick(e, "Not executed: its caller left while it waited. Calling again is safe.",
			"May have run: its caller left while "+tool+" was running. Look at its effect before calling again.")
	case bridge.CancelledByPeer:
		s = pick(e, "Not executed: its caller cancelled it before it started. Calling again is safe.",
			"May have run: its caller cancelled "+tool+" while it was running. Look at its effect before calling again.")
	case bridge.CancelledHere:
		s = pick(e, "Not executed: the owner of this bridge cancelled it. Ask them before calling again.",
			"May have run: the owner of this bridge cancelled "+tool+" while it was running. Look at its effect and ask them before calling again.")
	case bridge.NotArrived:
		s = "Not executed: the bridge restarted before the call reached " + host.short + ". Calling again is safe."
	case bridge.HostLost:
		s = "May have run: contact with " + host.short + " was lost while " + tool + " was running. Look at its effect before calling again."
	case bridge.ResultTooLarge:
		s = "Executed, but the result of " + tool + " is too large to pass on: " + sentence(e.detail) + " Look at its effect before calling again, and ask for less."
	case bridge.LedgerFault:
		s = "Not executed: the bridge cannot write its audit file, and without that only tools that change nothing run. Ask the owner before calling again."
	case bridge.NotFound:
		s = "Not executed: this bridge has never had a session of that name. Ask its owner before calling again."
	case bridge.Conflict:
		s = "Not executed: the bridge has another call of this id. Calling again is safe."
	default:
		s = h.faultText(tool, host, e)
	}
	return s + " (call " + string(c.ID) + ")"
}

func (h *Hub) faultText(tool string, host noun, e ending) string {
	switch e.executed {
	case bridge.ExecutedNo:
		return "Not executed: " + host.short + " could not run " + tool + ". Its owner finds the reason in the log; ask them before calling again."
	case bridge.ExecutedYes:
		return "Executed, but what " + host.short + " answered for " + tool + " cannot be passed on. Look at its effect before calling again."
	default:
		return "May have run: " + host.short + " could not say how " + tool + " ended. Look at its effect before calling again."
	}
}

// noHostText explains why nobody could run a call, with what is true now.
func (h *Hub) noHostText(c *call, e ending) string {
	n, ho := h.noun(c), h.hosts[c.target]
	var why, then string
	switch {
	case e.detail != "":
		why = fmt.Sprintf("the %s %q %s.", n.long, c.hostName, e.detail)
	case ho != nil && ho.link != nil && h.frozen(ho):
		why = fmt.Sprintf("the %s %q does not respond.", n.long, ho.name)
		then = "Someone must look at " + n.short + " on that machine."
	case ho != nil && ho.link != nil && h.up(ho):
		why = fmt.Sprintf("the %s %q was busy with other calls all the time.", n.long, ho.name)
	case ho != nil && ho.link != nil:
		why = fmt.Sprintf("the %s %q is attached but not ready to run tools.", n.long, ho.name)
		then = "It may be starting; if this lasts, someone must look at " + n.short + " on that machine."
	case c.target == "" || (c.byMain && !h.anyAttached()):
		why = "no " + n.long + " is attached to this bridge."
		then = "Someone must start " + n.short + " on that machine."
		if left := h.lastSeen(c.target); !left.IsZero() {
			then = fmt.Sprintf("The last one, %q, left %s ago. %s", c.target, durationText(h.now().Sub(left)), then)
		}
	default:
		why = fmt.Sprintf("the %s %q is not attached to this bridge.", n.long, c.target)
		then = "Someone must start it again on that machine."
		if left := h.lastSeen(c.target); !left.IsZero() {
			then = fmt.Sprintf("It left %s ago. %s", durationText(h.now().Sub(left)), then)
		}
	}
	s := "Not executed: " + why + " Calling again is safe.\n"
	if then != "" {
		s += then + "\n"
	}
	s += "(call " + string(c.ID)
	if waited := h.now().Sub(c.received); waited >= time.Second {
		s += ", waited " + durationText(waited.Round(time.Second)) // as ledger and card show it
	}
	return s + ")"
}

func (h *Hub) anyAttached() bool {
	for _, ho := range h.hosts {
		if ho.link != nil {
			return true
		}
	}
	return false
}

// noun is what to call a host.
type noun struct{ long, short string }

// noun of the host that has a call, or that it waits for.
func (h *Hub) noun(c *call) noun {
	if c.hostName != "" {
		return h.nounOf(c.hostName)
	}
	return h.nounOf(c.target)
}

func (h *Hub) nounOf(name string) noun {
	kind := ""
	if k := h.names.find(name); k != nil {
		kind = k.Kind
	}
	if ho := h.hosts[name]; ho != nil {
		kind = ho.hello.Kind
	}
	if kind == "" || kind == "omp" {
		return noun{"omp session", "omp"}
	}
	return noun{"host", "the host"}
}

func pick(e ending, no, unknown string) string {
	if e.executed == bridge.ExecutedNo {
		return no
	}
	return unknown
}

// sentence ends a host's words with a full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return "no reason was given."
	}
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// ownLines keeps what follows a host's words apart from them: words of several
// lines, such as a schema error with the arguments under it, end with their own.
func ownLines(s string) string {
	if !strings.Contains(s, "\n") {
		return s + " "
	}
	return strings.TrimSuffix(s, ".") + "\n"
}

// durationText says how long, as a person would.
func durationText(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than 1 s"
	case d < 2*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}

// bytesText says how much, rounded to what matters.
func bytesText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

// printable bounds foreign text and takes out what is not fit to be shown.
func printable(s string, limit int) string {
	if len(s) <= limit && plainASCII(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	n := 0
	out := strings.Map(func(r rune) rune {
		if n++; n > limit {
			return -1
		}
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
	if n > limit {
		out += "…"
	}
	return out
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
