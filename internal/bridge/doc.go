// Package bridge is the vocabulary that every other package shares: who calls
// (Peer), what can be called (Tool, Catalogue), one invocation (Call, Outcome,
// Event) and why something did not happen (Kind).
//
// It does no I/O, holds no state and imports nothing of this module. Fronts
// translate their wire into these types and back; the hub moves them; the
// ledger writes them down. All values are immutable once handed to another
// package, so none of them needs a lock.
package bridge
