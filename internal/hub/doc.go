// Package hub knows which hosts are attached, applies policy, queues, hands a
// call to one of them and follows it to its end.
//
// It promises: a call is handed to a host at most once (it goes back to the
// queue only when the same host process proves that it never arrived); each
// call ends exactly once, in one transition that gives both the ledger's line
// and the caller's answer; every answer of ours says whether the tool ran and
// whether to call again; nothing waits without a limit. Fronts translate the
// wire, the ledger (internal/audit) keeps the lines, hostlink carries frames.
//
// One lock, Hub.mu, covers all state: hosts, queues, calls, names, views. It is
// never held across I/O or a callback. Each call has one follower, the
// goroutine that is in Call or Join: it alone talks to the call's Watcher,
// writes the ledger and sends the frame, so a slow caller delays nobody else.
// Each link has a goroutine for what is sent beside calls (acks, cancels,
// notices), so a slow host delays nobody else. Run owns the clock: what is due
// at a time of its own happens there.
package hub
