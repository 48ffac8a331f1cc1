// Package stdiohost attaches a program that speaks MCP over stdio as a host
// (a2actl attach), and holds the small host that the demo attaches.
//
// Program owns a child process and the host's end of a link. It keeps the child
// running (back-off between restarts; while it is away the host is "not
// ready"), lists its tools, and maps calls both ways. Arguments and results are
// relayed as the bytes they are, unknown blocks and fields included; that is why
// the child is spoken to over a line reader of our own. A child has no approval
// gate that we know of, and hello says so.
package stdiohost
