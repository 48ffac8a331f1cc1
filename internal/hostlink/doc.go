// Package hostlink is the wire between the daemon and a host: framing,
// matching answers to requests, events, cancellation and liveness. PROTOCOL.md
// beside this file is the contract; the transcripts under testdata check both
// this side and the extension's.
//
// Conn is symmetric and knows nothing of hosts or calls. Host is the host's
// end in Go: it attaches, reattaches, runs calls once and keeps their answers
// until the daemon has delivered them. The daemon's end is the hub's.
//
// Payloads (arguments, results, progress) are cut out of their frames and
// relayed undecoded. A Conn has one reader, the goroutine in Run; writers take
// a lock and write themselves. Nothing is ever written on the read loop, so two
// sides with full socket buffers cannot wait for each other.
package hostlink
