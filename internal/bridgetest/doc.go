// Package bridgetest is the test kit: the whole daemon in-process on real sockets, a scripted host, the real omp, and
// the real clients that npm has.
//
// It promises that nothing outside the test's own directories, loopback and the test cache is touched. The one step
// that may reach further, `npm ci` of npm/package-lock.json, runs once per machine (see Tools). Parts that a machine
// lacks are skipped with the reason or count as failures, as A2A_E2E says (see Require).
//
// Only tests and internal/bench import it.
package bridgetest
