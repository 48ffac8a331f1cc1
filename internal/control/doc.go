// Package control is the admin interface of a running daemon: HTTP and JSON
// over control.sock, reachable by the same user only.
//
// It owns the types whose keys people script against (a2actl's --json prints
// them as they are: keys are only ever added), the client that a2actl uses and
// the server. What the server shows comes from small interfaces, one per noun,
// which the composition root fills in; nothing here knows the hub or a front.
// Who may connect is the listener's business (localsock).
//
// A Client is safe for concurrent use; a Server holds no state of its own.
package control
