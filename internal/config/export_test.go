package config

import "time"

// ResolveIn is ResolvePaths with another place than /run/user.
var ResolveIn = resolve

// MaxSocketPath is the limit of this system.
const MaxSocketPath = maxSocketPath

// ParseFile reads the text of a file.
func ParseFile(data []byte) (map[string]any, []Problem) {
	keys := map[string]Key{}
	for _, k := range Keys() {
		keys[k.Name] = k
	}
	values, _, problems := parseFile(data, keys)
	return values, problems
}

// FormatSize and FormatDuration write values as they are read.
var FormatSize = formatSize

func FormatDuration(d time.Duration) string { return formatDuration(int64(d)) }
