// Package mcpfront is the MCP face of the bridge: Streamable HTTP in both
// eras, the session revisions 2024-11-05 to 2025-11-25 ("legacy") and the
// stateless 2026-07-28 ("modern"), chosen per request on one address.
//
// It owns everything between an authenticated HTTP request and a bridge.Call:
// body limits and JSON-RPC parsing, sessions, the list of tools as ready
// bytes, event streams, progress, resuming, and what a closed connection or a
// cancelled notification means. It decides nothing about tools: which may be
// called, where they run and how they end is the hub's. Tokens and Host and
// Origin headers have been checked before it is reached.
//
// mcp-go serves initialize, server/discover and subscriptions/listen.
// tools/list and tools/call bypass it: the first is one write of cached bytes,
// the second splices the host's result between two constant pieces, so that
// ids, numbers and unknown fields pass byte for byte.
//
// What it changes in a tool's definition, and nothing else: x-mcp-header
// annotations are stripped from schemas (an illegal one makes clients drop the
// tool, a legal one would make every modern call carry its arguments twice),
// so there are no Mcp-Param headers to check; annotations.readOnlyHint is true
// for tools of tier read and never for others; a missing inputSchema becomes
// {"type":"object"}.
//
// Nothing is stored. Session ids and event ids describe themselves and carry a
// MAC, so they outlive the daemon. What lives in memory (open answers, event
// streams, deleted sessions) sits in live, behind one lock that is never held
// across I/O or a call to the hub. Each answer has its own lock, which is held
// while something is written to its client; writes have a deadline, and what
// the hub reports in the meantime is merged, never queued.
package mcpfront
