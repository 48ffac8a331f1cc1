package config

import "strings"

// Type names the form of a setting's value.
type Type string

// The types of settings.
const (
	TypeBool     Type = "bool"
	TypeNumber   Type = "number"
	TypeDuration Type = "duration" // 10s, 5m, 1h30m
	TypeSize     Type = "size"     // 512KiB, 16MiB, or plain bytes
	TypeChoice   Type = "choice"   // one of Key.Choices
	TypeText     Type = "text"
	TypeList     Type = "list" // of texts; comma-separated in the environment and in flags
	TypeIdle     Type = "idle" // auto, off or a duration
)

// Key describes one setting.
type Key struct {
	Name    string   // as in the file, levels joined by dots
	Type    Type     //
	Default string   // as it would be written; a list's is [] when empty
	Choices []string // of TypeChoice
	Doc     string   // one sentence

	min, max int64              // of numbers, durations (ns) and sizes (bytes)
	check    func(string) error // of texts and of each entry of a list
}

// Env is the environment variable that overrides the setting.
func (k Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

const envPrefix = "A2A_BRIDGE_"

const (
	second = int64(1e9)
	minute = 60 * second
	hour   = 60 * minute

	kib = int64(1 << 10)
	mib = int64(1 << 20)
	gib = int64(1 << 30)
)

// maxPayload bounds arguments and results. A payload must fit into one frame
// of the host link (32 MiB) with everything around it.
const maxPayload = 24 * mib

// Keys lists every setting, in the order of the documentation.
func Keys() []Key {
	return []Key{
		{Name: "http.host", Type: TypeText, Default: "127.0.0.1", check: checkIP,
			Doc: "Address to listen on; anything but loopback needs http.insecure. Under systemd the socket unit decides."},
		{Name: "http.port", Type: TypeNumber, Default: "7717", min: 1, max: 65535,
			Doc: "Port to listen on. Under systemd the socket unit decides."},
		{Name: "http.insecure", Type: TypeBool, Default: "false",
			Doc: "Allow to listen beyond loopback without TLS; put a TLS proxy in front."},
		{Name: "http.allowed_hosts", Type: TypeList, Default: "[]", check: checkHost,
			Doc: "Host names that requests may carry besides the loopback names."},
		{Name: "http.allowed_origins", Type: TypeList, Default: "[]", check: checkOrigin,
			Doc: "Origins of web pages that may send requests besides the loopback ones."},
		{Name: "http.public_url", Type: TypeText, Default: "", check: checkURL,
			Doc: "URL under which others reach this bridge, for the agent card and for printed configurations."},

		{Name: "limits.body", Type: TypeSize, Default: "1MiB", min: kib, max: maxPayload,
			Doc: "Largest request body of an MCP client."},
		{Name: "limits.concurrency", Type: TypeNumber, Default: "32", min: 1, max: 1024,
			Doc: "Calls that run on one host at the same time; more wait in its queue."},
		{Name: "limits.result", Type: TypeSize, Default: "16MiB", min: kib, max: maxPayload,
			Doc: "Largest result of a tool that is passed on."},

		{Name: "queue.mode", Type: TypeChoice, Default: ModeQueue, Choices: []string{ModeQueue, ModeReject},
			Doc: "What happens to a call while no host is attached: it waits, or it is refused at once."},
		{Name: "queue.wait", Type: TypeDuration, Default: "1m", min: 0, max: hour,
			Doc: "Longest wait for a host; a token's own wait may be shorter."},
		{Name: "queue.max_calls", Type: TypeNumber, Default: "64", min: 1, max: 10_000,
			Doc: "Calls that may wait for one host."},
		{Name: "queue.max_bytes", Type: TypeSize, Default: "16MiB", min: kib, max: gib,
			Doc: "Bytes of arguments that may wait for one host."},

		{Name: "approval.timeout", Type: TypeDuration, Default: "5m", min: second, max: 24 * hour,
			Doc: "Longest wait for the owner's answer to an approval; a token's own wait may be shorter."},

		{Name: "resume.grace", Type: TypeDuration, Default: "10s", min: 0, max: 10 * minute,
			Doc: "How long a lost host may take to come back with the calls it was running."},
		{Name: "resume.keep", Type: TypeDuration, Default: "2m", min: 0, max: hour,
			Doc: "How long a result is kept for a client that lost its connection."},

		{Name: "idle_exit", Type: TypeIdle, Default: "auto", min: second, max: 30 * 24 * hour,
			Doc: "Leave after this much time without anything to do; auto is 10m when systemd starts us again, else off."},

		{Name: "exposure.deny", Type: TypeList, Default: "[]", check: checkGlob,
			Doc: "Globs over names of tools that peers neither see nor call."},
		{Name: "exposure.deny_mcp_tools", Type: TypeBool, Default: "false",
			Doc: "Hide the tools that the host itself got from other MCP servers."},

		{Name: "audit.max_bytes", Type: TypeSize, Default: "16MiB", min: 64 * kib, max: gib,
			Doc: "Size at which the audit file is rotated."},
		{Name: "audit.keep", Type: TypeNumber, Default: "4", min: 1, max: 100,
			Doc: "Rotated audit files that are kept."},

		{Name: "log.level", Type: TypeChoice, Default: "info", Choices: []string{"debug", "info", "warn", "error"},
			Doc: "Least important kind of message that is logged."},
		{Name: "log.format", Type: TypeChoice, Default: FormatAuto, Choices: []string{FormatAuto, FormatText, FormatJSON},
			Doc: "Form of the log; auto fits the journal or a terminal."},

		{Name: "tasks.when_busy", Type: TypeChoice, Default: ModeQueue, Choices: []string{ModeQueue, ModeReject, ModeSteer},
			Doc: "What an A2A task does while the session is busy; steer is for tokens of the owner only."},
		{Name: "tasks.host_grace", Type: TypeDuration, Default: "10m", min: 0, max: 24 * hour,
			Doc: "How long a lost host may take to come back before its task has failed."},
		{Name: "tasks.images", Type: TypeBool, Default: "false",
			Doc: "Accept images in A2A messages."},
		{Name: "tasks.documents", Type: TypeBool, Default: "false",
			Doc: "Accept documents in A2A messages."},

		{Name: "push.allowed_origins", Type: TypeList, Default: "[]", check: checkOrigin,
			Doc: "Origins to which task notifications may be sent."},
	}
}

// nearest returns the known name that is closest to what somebody typed, or
// "" when nothing is near.
func nearest(typed string, known []string) string {
	best, bestDistance := "", len(typed)/3+2 // more differences than that are another word
	for _, name := range known {
		if d := distance(strings.ToLower(typed), name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the number of single-byte edits (with neighbours swapped
// counting as two) between two short texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
