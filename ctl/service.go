package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/machine"
	"github.com/a2a-bridge/a2a-bridge/packaging"
)

func newServiceCmd(a *app) *cobra.Command {
	return noun("service", "the systemd units of this user: install, uninstall, start, stop, restart",
		"  a2actl service install\n  a2actl service restart",
		newServiceInstallCmd(a), newServiceUninstallCmd(a),
		newServiceStartCmd(a), newServiceStopCmd(a), newServiceRestartCmd(a))
}

// serviceReport is the document of every verb of service.
type serviceReport struct {
	Changed  []string   `json:"changed"`  // what was done, in order
	Packaged *string    `json:"packaged"` // where a package has put the units; null: nowhere
	URL      *string    `json:"url"`      // proven just now; null: nothing answers
	Version  *string    `json:"version"`  // of the daemon that answered
	Units    []unitLine `json:"units"`
}

type unitLine struct {
	Name    string `json:"name"`
	Active  string `json:"active"`
	Enabled string `json:"enabled"`
	File    string `json:"file"`
}

// serviceReport tells how the units are now, with or without a manager.
func (a *app) serviceReport(ctx context.Context, c *changes, p proof) serviceReport {
	r := serviceReport{Changed: append([]string{}, c.list...), Units: []unitLine{}, Version: p.status.Daemon.Version}
	if p.status.URL != "" {
		r.URL = &p.status.URL
	}
	u, err := a.lookUnits(ctx)
	if u.packaged != "" {
		r.Packaged = &u.packaged
	}
	if err == nil {
		for _, m := range u.units {
			r.Units = append(r.Units, unitLine{Name: m.Name, Active: m.Active, Enabled: m.Enabled, File: m.File})
		}
	}
	return r
}

// answered ends a verb after which the bridge answers.
func (a *app) answered(ctx context.Context, c *changes, p proof) error {
	if a.json {
		return a.emit(a.serviceReport(ctx, c, p))
	}
	return a.print(line{okWord, "daemon", []string{fmt.Sprintf("%s answered in %s at %s",
		shortVersion(deref(p.status.Daemon.Version)), millis(p.took), p.status.URL)}}.String())
}

// withFixes makes the ways out of a taken port the next step of a verb.
func withFixes(err error) error {
	var held *heldError
	if errors.As(err, &held) {
		return withTry(err, strings.TrimPrefix(strings.Join(held.fixes(), "\n     "), "fix: "))
	}
	return err
}

func newServiceInstallCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "install",
		Short:   "write the units, enable and start them, and see the bridge answer",
		Example: "  a2actl service install",
		Long: `Writes the systemd user units to ~/.config/systemd/user, for the a2a-bridge that
lies beside this a2actl, enables and starts the sockets, and waits until the
bridge answers. Where a package has brought the units, they are only enabled
and started. Run again it repairs. It needs no root. a2actl setup does this
and installs the omp extension.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			units, err := a.serviceUnits(cmd.Context())
			if err != nil {
				return err
			}
			c := &changes{a: a, loud: true}
			t := &turnOn{a: a, c: c, units: units, port: units.port(), retry: "a2actl service install"}
			p, err := t.do(cmd.Context())
			if err != nil {
				return withFixes(err)
			}
			return a.answered(cmd.Context(), c, p)
		},
	}
}

// serviceUnits also refuses to act for another user than the files belong to.
func (a *app) serviceUnits(ctx context.Context) (userUnits, error) {
	if _, err := a.paths(); err != nil {
		return userUnits{}, err
	}
	return a.lookUnits(ctx)
}

// installed gives the units, or says that there are none.
func (a *app) installedUnits(ctx context.Context) (userUnits, error) {
	u, err := a.serviceUnits(ctx)
	if err == nil && !u.socket().Found() {
		return u, &failure{err: errors.New("the units are not installed"), try: "a2actl service install", code: exitNotFound}
	}
	return u, err
}

func newServiceStartCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "start",
		Short:   "open the sockets, and see the bridge answer",
		Example: "  a2actl service start",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.begin(cmd.Context(), "start", packaging.HTTPSocket, packaging.HostSocket, packaging.ControlSocket)
		},
	}
}

func newServiceRestartCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "restart",
		Short:   "start the daemon anew; its sockets stay open, callers wait",
		Example: "  a2actl service restart",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.begin(cmd.Context(), "restart", packaging.Service)
		},
	}
}

// begin starts units and waits for the proof.
func (a *app) begin(ctx context.Context, verb string, names ...string) error {
	u, err := a.installedUnits(ctx)
	if err != nil {
		return err
	}
	retry := "a2actl service " + verb
	if u.socket().Active != "active" {
		if err := portFree(u.port(), retry); err != nil {
			return withFixes(err)
		}
	}
	c := &changes{a: a}
	if u.stale() {
		if err := c.systemctl(ctx, "daemon-reload"); err != nil {
			return err
		}
	}
	// A unit that systemd has given up would not start; for others this changes nothing.
	if err := c.systemctl(ctx, append([]string{"reset-failed"}, unitNames...)...); err != nil {
		return err
	}
	if err := c.systemctl(ctx, append([]string{verb}, names...)...); err != nil {
		return withFixes(a.explain(ctx, u.port(), err, retry))
	}
	p, err := a.prove(ctx, u.port(), retry)
	if err != nil {
		return withFixes(err)
	}
	return a.answered(ctx, c, p)
}

func newServiceStopCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "stop",
		Short:   "close the sockets and stop the daemon, until the next login",
		Example: "  a2actl service stop",
		Long: `Stops the daemon and its sockets: stopping the daemon alone would let the next
connection start it again. What runs gets a few seconds to end.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			u, err := a.installedUnits(ctx)
			if err != nil {
				return err
			}
			c := &changes{a: a}
			if err := c.systemctl(ctx, append([]string{"stop"}, unitNames...)...); err != nil {
				return err
			}
			if a.json {
				return a.emit(a.serviceReport(ctx, c, proof{}))
			}
			again := ""
			if u.socket().Enabled == "enabled" {
				again = " It starts again at your next login; for good: a2actl service uninstall"
			}
			text := fmt.Sprintf("nothing of a2a-bridge listens on %s.%s", address(u.port()), again)
			if holder, held := machine.PortHolder(address(u.port())); held {
				text = fmt.Sprintf("the units are stopped, but %s is held by %s", address(u.port()), clean(holder.String()))
			}
			return a.print(line{okWord, "stopped", []string{text}}.String())
		},
	}
}
