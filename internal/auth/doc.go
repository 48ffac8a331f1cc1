// Package auth says who is calling: it mints, hashes, verifies, rotates and
// revokes bearer tokens, and its middleware puts a bridge.Peer into the
// context of each request that carries a good one.
//
// It promises that a token leaves this package once, as the Secret that
// Create or Rotate returns; that files and log hold hashes and counts only;
// that a change in tokens.json counts from the next check on, whoever made
// it; and that a file that is broken, unreadable or open to others admits
// nobody. What a peer may call, once it is known, is for others to decide.
//
// A token is 32 random bytes, so a plain SHA-256 protects it at rest: slow
// password hashes make guessing dear, and nobody guesses one of 2^256. A
// plain hash also keeps the check at a microsecond per request.
//
// Locking: checks read an immutable snapshot of the file behind an atomic
// pointer; mu guards reloading and the use counts; changes hold a lock on a
// side file as well, since the control program writes the same file.
package auth
