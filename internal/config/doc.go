// Package config owns the settings and every path of the bridge: the list of
// keys with their types, defaults and limits, the precedence of file,
// environment and flags, and the one rule that says where files and sockets
// are.
//
// It promises that Load never fails: a file that is broken, unreadable or
// partly wrong gives a usable Config, with the default for each setting that
// could not be read, and a list of Problems with line numbers. What to do
// about problems is left to the caller (the daemon answers 503, the control
// program prints them). Nothing is read from a project directory.
//
// viper merges the sources and is dropped before Load returns; the YAML text
// itself is read by nodes, because only those know their line. All values are
// plain data without locks.
package config
