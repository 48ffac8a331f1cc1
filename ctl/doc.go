// Package ctl is a2actl: the command tree, one file per noun.
//
// A command is a constructor and a short RunE on *app, which holds the
// streams, the environment and the paths. Data goes to stdout, words to
// stderr; every failure is an error that says what to type next, and exit.go
// alone turns errors into codes. Commands that change tokens write the file
// themselves and then tell the daemon, so that they also work while it is
// down. Nothing here knows the hub; only demo links the daemon.
package ctl
