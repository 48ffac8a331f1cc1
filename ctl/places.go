package ctl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

func newPathsCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "paths",
		Short:   "every file and socket, as this shell and the daemon see them",
		Example: "  a2actl paths",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, missing, err := a.files()
			if err != nil {
				return err
			}
			ours := placesOf(p)
			theirs, err := control.NewClient(p.ControlSocket).Paths(cmd.Context())
			up := err == nil
			if a.json {
				doc := map[string]any{"paths": ours, "daemon": nil}
				if up {
					doc["daemon"] = theirs
				}
				return a.emit(doc)
			}
			rows := [][]string{}
			for _, l := range []struct{ name, ours, theirs string }{
				{"config", ours.Config, theirs.Config},
				{"agents", ours.Agents, theirs.Agents},
				{"tokens", ours.Tokens, theirs.Tokens},
				{"state", ours.State, theirs.State},
				{"host socket", ours.HostSocket, theirs.HostSocket},
				{"control socket", ours.ControlSocket, theirs.ControlSocket},
			} {
				if l.ours == "" {
					l.ours = "nowhere"
				}
				row := []string{l.name, l.ours}
				if up && l.ours != l.theirs {
					row = append(row, "(daemon: "+l.theirs+")")
				}
				rows = append(rows, row)
			}
			if missing != nil {
				a.say("%s", missing)
			} else if !up {
				a.say("The daemon does not answer, so these are this shell's only.")
			}
			return a.print(strings.Join(table(a.columns, nil, rows), "\n") + "\n")
		},
	}
}

func placesOf(p config.Paths) control.Paths {
	return control.Paths{Config: p.Config, Agents: p.Agents, Tokens: p.Tokens, State: p.State,
		HostSocket: p.HostSocket, ControlSocket: p.ControlSocket}
}

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "of a2actl and of the daemon",
		Example: "  a2actl version --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc := struct {
				A2actl string  `json:"a2actl"`
				Daemon *string `json:"daemon"`
			}{A2actl: bridge.Version()}
			if p, err := a.paths(); err == nil {
				if s, err := control.NewClient(p.ControlSocket).Status(cmd.Context()); err == nil {
					doc.Daemon = s.Daemon.Version
				}
			}
			if a.json {
				return a.emit(doc)
			}
			daemon := "does not answer"
			if doc.Daemon != nil {
				daemon = *doc.Daemon
			}
			return a.print(fmt.Sprintf("a2actl  %s\ndaemon  %s\n", doc.A2actl, clean(daemon)))
		},
	}
}

func newMetricsCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "metrics",
		Short:   "counters in Prometheus' text form",
		Example: "  a2actl metrics | grep a2a_bridge_",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := ask(a, cmd.Context(), func(c *control.Client) ([]byte, error) { return c.Metrics(cmd.Context()) })
			if err != nil {
				return err
			}
			return a.print(string(page))
		},
	}
}
