// Package bench measures the bridge against the shortest ways to the same tools, on this machine and in one run: an MCP
// server inside the same omp process (bun-server), and a bare Go handler with the same hop over a unix socket. Every
// part is a process of its own, as it is for users; the client and the scripted host share the test's.
//
// It has no code of its own and asserts no time: a table is for people, who know what else the machine was doing.
package bench
