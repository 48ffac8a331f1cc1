// Package service is the composition root of the daemon: it builds every part
// from the settings, assembles the HTTP chain (Host and Origin, route, auth,
// front), runs until it is told to stop or has nothing to do, and drains.
//
// It owns signals, lifetimes, the log and what the control socket shows; it
// decides nothing about calls, which is the hub's. It promises that a broken
// configuration never keeps the daemon from running (every route then answers
// 503 and the control socket says which line), that no accepted request is
// dropped at a stop, and that Run returns only when everything it started has
// ended.
//
// A daemon's fields are set before its goroutines start; what changes later
// (the settings in force) is one pointer that is swapped.
package service
