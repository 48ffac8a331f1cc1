package bench_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// bareArg makes this test binary the bare handler: BINARY bareArg SOCKET TOKEN.
const bareArg = "bare-handler"

var tableFlag = flag.Bool("bench-table", false, "measure for TestTable and print the table; without it one request of each kind is made")

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == bareArg {
		if err := serveBare(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}
