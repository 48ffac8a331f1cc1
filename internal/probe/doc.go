// Package probe speaks to a bridge from outside, as a remote client would:
// discover, list and call, in the stateless era and in a session. demo, ping,
// setup and doctor prove with it that an answer comes back.
//
// It is not a general MCP client. It goes to the one address it was given:
// no proxy from the environment, no redirects, bounded answers. Every wait
// ends with the caller's context. A Client may be used by many goroutines; a
// Session's calls too.
package probe
