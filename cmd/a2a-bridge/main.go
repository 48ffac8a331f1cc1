// Command a2a-bridge is the daemon: one address through which other agents
// reach the coding-agent session that runs on this machine.
package main

import (
	"os"

	"github.com/a2a-bridge/a2a-bridge/service"
)

func main() { os.Exit(service.Main(os.Args[1:], os.Stdout, os.Stderr)) }
