// Package hub knows which hosts are attached, applies policy, queues, hands a
// call to one of them and follows it to its end.
package hub
