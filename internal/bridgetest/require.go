package bridgetest

import (
	"os"
	"testing"
)

// E2EVariable says what becomes of a test whose real parts this machine lacks: "auto" (the default) skips it and
// says why, "require" makes that a failure, "off" skips every such test.
const E2EVariable = "A2A_E2E"

// Require ends the test unless have holds. The reason names what is missing, as in "tmux is not installed".
func Require(t testing.TB, have bool, reason string) {
	t.Helper()
	switch mode := os.Getenv(E2EVariable); mode {
	case "off":
		t.Skipf("%s=off", E2EVariable)
	case "require":
		if !have {
			t.Fatalf("%s=require, but %s", E2EVariable, reason)
		}
	case "", "auto":
		if !have {
			t.Skip(reason)
		}
	default:
		t.Fatalf("%s=%q: want off, auto or require", E2EVariable, mode)
	}
}
