package config

// maxSocketPath is what fits into sun_path (104 bytes) with its final NUL.
const maxSocketPath = 103

// runtimeInState: macOS has no runtime directory, and TMPDIR differs between
// launchd, ssh and terminals.
const runtimeInState = true
