// Package localsock is where the daemon listens: it takes the sockets that
// systemd passes by name, or binds the same addresses itself; it admits only
// our own uid on unix sockets; it tells systemd how we are; and it holds the
// lock that makes the daemon the only one on its state directory.
//
// It promises that a socket file on which somebody answers is never removed,
// that sockets of systemd's keep their files, and that a file that we bound
// goes away with its listener. Who holds a taken port is for others to find
// out. The types hold no state that needs a lock.
package localsock
