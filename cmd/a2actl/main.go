// Command a2actl turns the bridge on, shows what it does and hands out its
// address and tokens.
package main

import (
	"os"

	"github.com/a2a-bridge/a2a-bridge/ctl"
)

func main() { os.Exit(ctl.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
