package service_test

import (
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

func TestMain(m *testing.M) { testscript.Main(m, bridgetest.ScriptPrograms()) }

// The scripts run both real programs; the host is the fixture, attached by
// a2actl attach.
func TestScripts(t *testing.T) {
	t.Parallel()
	programs := bridgetest.Binaries(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: bridgetest.ScriptCommands(),
		Setup: func(env *testscript.Env) error {
			tb := env.T().(testing.TB)
			_, port, err := net.SplitHostPort(bridgetest.FreePort(tb))
			if err != nil {
				return err
			}
			env.Setenv("PATH", programs.Dir+string(os.PathListSeparator)+env.Getenv("PATH"))
			return bridgetest.ScriptEnv(env, bridgetest.SockDir(tb), port)
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
