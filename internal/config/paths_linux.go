package config

// maxSocketPath is what fits into sun_path (108 bytes) with its final NUL.
const maxSocketPath = 107

// runtimeInState: systemd-logind makes a runtime directory for each user.
const runtimeInState = false
