package bridge

import (
	"runtime/debug"
	"strings"
)

// version is set by the release build (-X …/internal/bridge.version=1.0.0).
var version string

// Version is this build's version without the leading v: the release's, else
// the module's, else "dev".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "dev"
}
