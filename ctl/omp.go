package ctl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/contrib"
	"github.com/a2a-bridge/a2a-bridge/internal/machine"
)

func newOMPCmd(a *app) *cobra.Command {
	return noun("omp", "the extension that lends an omp session: install, uninstall, status",
		"  a2actl omp install\n  a2actl omp status", newOMPInstallCmd(a), newOMPUninstallCmd(a), newOMPStatusCmd(a))
}

// extension is the place of our extension in one omp agent directory.
type extension struct {
	agentDir string
	dir      string
}

// extensionOf follows omp's own rule of where its agent directory is.
func (a *app) extensionOf() (extension, error) {
	dir := a.env("PI_CODING_AGENT_DIR")
	if dir == "" {
		home := a.env("HOME")
		if home == "" {
			return extension{}, withTry(errors.New("HOME is not set, so omp's directory is not known"), "export HOME=…")
		}
		name := a.env("PI_CONFIG_DIR")
		if name == "" {
			name = ".omp"
		}
		dir = filepath.Join(home, name, "agent")
	}
	return extension{agentDir: dir, dir: filepath.Join(dir, "extensions", "a2a-bridge")}, nil
}

// before is what was in the place of the extension.
type before struct{ contrib.Installed }

// differs reports whether an installation changes anything.
func (b before) differs() bool { return !b.Same && !b.Linked }

// look tells what is there; what is not ours is an error.
func (e extension) look() (before, error) {
	there, err := contrib.Look(e.dir)
	return before{there}, e.foreign(err)
}

func (e extension) install() (before, error) {
	there, err := e.look()
	if err != nil {
		return there, err
	}
	if err := contrib.Install(e.dir); err != nil {
		return there, e.foreign(fmt.Errorf("install the extension: %w", err))
	}
	return there, nil
}

// foreign puts a directory that is not ours into words.
func (e extension) foreign(err error) error {
	if errors.Is(err, contrib.ErrForeign) {
		return &failure{err: fmt.Errorf("%s holds something that is not this extension, and is left alone", e.dir),
			try: "move it away, then: a2actl omp install", code: exitRefused}
	}
	return err
}

func newOMPInstallCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "install",
		Short:   "put the extension where omp loads it",
		Example: "  a2actl omp install",
		Args:    exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			e, err := a.extensionOf()
			if err != nil {
				return err
			}
			before, err := e.install()
			if err != nil {
				return err
			}
			changed := before.differs()
			if a.json {
				return a.emit(map[string]any{"path": e.dir, "version": contrib.Version(), "changed": changed})
			}
			switch {
			case before.Linked:
				a.say("%s is a link to somebody's own copy, and is left as it is.", e.dir)
				return nil
			case !changed:
				a.say("The extension %s is installed already: %s", shortVersion(contrib.Version()), e.dir)
				return nil
			}
			a.say("Installed the extension %s: %s", shortVersion(contrib.Version()), e.dir)
			a.say("Start omp, or restart a running one: it loads extensions at start. Proof: a2actl omp status")
			return nil
		},
	}
}

func newOMPUninstallCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "uninstall",
		Short:   "take the extension away again",
		Example: "  a2actl omp uninstall",
		Args:    exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			e, err := a.extensionOf()
			if err != nil {
				return err
			}
			before, err := contrib.Look(e.dir)
			if err != nil {
				return e.foreign(err)
			}
			if err := contrib.Remove(e.dir); err != nil {
				return fmt.Errorf("remove the extension: %w", err)
			}
			if a.json {
				return a.emit(map[string]any{"path": e.dir, "removed": before.Present})
			}
			if before.Present {
				a.say("Removed %s. A running omp keeps it until it ends.", e.dir)
			} else {
				a.say("The extension is not installed.")
			}
			return nil
		},
	}
}

// ompReport is `omp status --json`.
type ompReport struct {
	OMP        *string `json:"omp"` // path; null: not found
	OMPVersion *string `json:"omp_version"`
	Path       string  `json:"path"`
	Installed  *string `json:"installed"` // version of the extension; null: none
	Current    bool    `json:"current"`   // it is this a2actl's
	Loads      *bool   `json:"loads"`     // omp was started and its extension said hello; null: not tried
	Text       string  `json:"text"`
	Fix        string  `json:"fix"`
}

func newOMPStatusCmd(a *app) *cobra.Command {
	var quick bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "is the extension there, and does omp load it? Starts an omp to find out",
		Example: "  a2actl omp status",
		Long: `Looks for omp and the extension, and proves that they fit: it starts omp
without a screen, a session file or a question to a model, and waits for the
extension's hello on a socket of its own. Exit code 0 only if that came.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.extensionOf()
			if err != nil {
				return err
			}
			if a.watched() {
				a.say("starting omp to ask it …")
			}
			r, err := a.ompReport(cmd.Context(), e)
			if err != nil {
				return err
			}
			if !quick && r.OMP != nil && r.Installed != nil {
				hello, err := a.proveOMP(cmd.Context(), *r.OMP, limit)
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				loads := err == nil
				if r.Loads = &loads; loads {
					r.Text = fmt.Sprintf("omp %s at %s loads the extension %s: it said hello", clean(hello.Version), *r.OMP, shortVersion(hello.Extension))
				} else if errors.Is(err, errNoModel) {
					r.Text, r.Fix = clean(err.Error()), "start omp once and log in"
				} else {
					r.Text, r.Fix = "omp does not load the extension: "+clean(err.Error()), "start omp and read what it says"
				}
			}
			if a.json {
				err = a.emit(r)
			} else {
				lines := []string{r.Text}
				if r.Fix != "" {
					lines = append(lines, "fix: "+r.Fix)
				}
				word := "ok"
				if !r.good(quick) {
					word = "FAIL"
				}
				err = a.print(section(word, lines))
			}
			if err == nil && !r.good(quick) {
				return silent(exitFailed)
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&limit, "timeout", proofTime, "how much `TIME` omp may take to start")
	cmd.Flags().BoolVar(&quick, "quick", false, "only look, do not start omp")
	return cmd
}

func (r ompReport) good(quick bool) bool {
	return r.OMP != nil && r.Installed != nil && r.Current && (quick || r.Loads != nil && *r.Loads)
}

// ompReport is what can be seen without starting omp.
func (a *app) ompReport(ctx context.Context, e extension) (ompReport, error) {
	out := ompReport{Path: e.dir}
	got, err := contrib.Look(e.dir)
	if err != nil {
		return out, e.foreign(err)
	}
	if omp, ok := machine.FindOMP(ctx, a.env); ok {
		out.OMP = &omp.Path
		if omp.Version != "" {
			out.OMPVersion = &omp.Version
		}
	}
	switch {
	case out.OMP == nil:
		out.Text, out.Fix = "no omp was found in PATH or ~/.bun/bin", "install omp, or start the command with its directory in PATH"
	case !got.Present:
		out.Text, out.Fix = "the extension is not installed in "+e.agentDir, "a2actl omp install"
	case got.Same || got.Linked:
		out.Text, out.Current = fmt.Sprintf("omp %s at %s, extension %s installed", deref(out.OMPVersion), *out.OMP, shortVersion(got.Version)), true
	default:
		out.Text, out.Fix = fmt.Sprintf("the installed extension (%s) is not the one of this a2actl (%s)", clean(got.Version), contrib.Version()), "a2actl omp install"
	}
	if got.Present {
		out.Installed = &got.Version
	}
	return out, nil
}
