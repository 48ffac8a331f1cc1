package ctl_test

import (
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/a2a-bridge/a2a-bridge/ctl"
	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
	"github.com/a2a-bridge/a2a-bridge/service"
)

func TestMain(m *testing.M) {
	programs := bridgetest.ScriptPrograms()
	programs["a2actl"] = func() { os.Exit(ctl.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
	programs["a2a-bridge"] = func() { os.Exit(service.Main(os.Args[1:], os.Stdout, os.Stderr)) }
	testscript.Main(m, programs)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: bridgetest.ScriptCommands(),
		Setup: func(env *testscript.Env) error {
			tb := env.T().(testing.TB)
			_, port, err := net.SplitHostPort(bridgetest.FreePort(tb))
			if err != nil {
				return err
			}
			return bridgetest.ScriptEnv(env, bridgetest.SockDir(tb), port)
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
