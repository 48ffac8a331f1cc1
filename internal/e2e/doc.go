// Package e2e holds scenarios with real parts: the whole daemon, a program attached by `a2actl attach`, and the MCP
// clients that people use. It has no code of its own; what it needs to start and stop comes from bridgetest.
package e2e
