// Package machine asks this machine what status, setup and doctor want to
// know: who holds a port, whether user units work and how they are, whether
// they survive a logout, which omp would start, and whether a directory is on
// a network file system.
//
// It only looks, except for Manage, which passes a command to the user's
// service manager. It never guesses: what cannot be known here (on another
// system, or without permission) is unknown. Programs are run with a time
// limit and bounded output. There is no state.
package machine
