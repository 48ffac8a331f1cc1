package ctl

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

func newTokenCmd(a *app) *cobra.Command {
	return listing("token", "who may connect: create, list, show, rotate, revoke",
		"  a2actl token create laptop\n  a2actl token rotate laptop --overlap 24h",
		newTokenListCmd(a), newTokenCreateCmd(a), newTokenShowCmd(a), newTokenRotateCmd(a), newTokenRevokeCmd(a))
}

// grant is what the flags of a new token say.
type grant struct {
	tools  []string
	scopes []string
	role   string
	expire time.Duration
	ends   bool // expire was given
}

func (g *grant) options(a *app, name string) (auth.CreateOptions, error) {
	o := auth.CreateOptions{Name: name, Role: bridge.Role(g.role), Tools: g.tools}
	if o.Role != bridge.RolePeer && o.Role != bridge.RoleOwner {
		return o, usage("a2actl token create "+name, "--role is peer or owner, not %q", g.role)
	}
	for _, s := range g.scopes {
		scope := bridge.Scope(s)
		switch scope {
		case bridge.ScopeMCP:
		case bridge.ScopeA2A:
			return o, usage("a2actl token create "+name, "--scope a2a is not there yet: this version serves MCP only")
		default:
			return o, usage("a2actl token create "+name, "--scope is mcp, not %q", s)
		}
		o.Scopes = append(o.Scopes, scope)
	}
	for _, glob := range g.tools {
		if _, err := path.Match(glob, ""); err != nil {
			return o, usage("", "--tools %q is not a glob", glob)
		}
	}
	switch {
	case g.ends && g.expire <= 0:
		return o, usage("a2actl token create "+name+" --for 2h", "--for must be more than 0")
	case g.expire > 0:
		o.Expires = a.now().Add(g.expire)
	}
	return o, nil
}

func newTokenCreateCmd(a *app) *cobra.Command {
	g := grant{}
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "mint a token; it is printed this once",
		Example: "  a2actl token create review-bot --tools read,grep --for 2h",
		Args:    exactly(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			g.ends = cmd.Flags().Changed("for")
			o, err := g.options(a, args[0])
			if err != nil {
				return err
			}
			store, paths, err := a.tokens()
			if err != nil {
				return err
			}
			if err := a.checkGlobs(cmd.Context(), paths, g.tools); err != nil {
				return err
			}
			secret, record, err := store.Create(o)
			if err != nil {
				return a.tokenFailure(err, args[0])
			}
			a.tellDaemon(cmd.Context(), paths)
			if a.json {
				return a.emit(minted(record, secret))
			}
			a.say("New token %q (%s). It is shown this once.", record.Name, terms(record, a.now()))
			a.say("Its config: a2actl print-remote-config %s", record.Name)
			return a.print(secret.Reveal() + "\n")
		},
	}
	cmd.Flags().StringSliceVar(&g.tools, "tools", nil, "only tools that match one of these `GLOBS` (default: all)")
	cmd.Flags().StringSliceVar(&g.scopes, "scope", []string{string(bridge.ScopeMCP)}, "what it opens, a list of `SCOPES`: mcp")
	cmd.Flags().StringVar(&g.role, "role", string(bridge.RolePeer), "the `ROLE` of its holder: peer or owner")
	cmd.Flags().DurationVar(&g.expire, "for", 0, "ends after this `TIME`, such as 2h (default: never)")
	return cmd
}

func newTokenListCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "all tokens, their terms and last use",
		Example: "  a2actl token list",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, paths, err := a.tokens()
			if err != nil {
				return err
			}
			records, err := store.List()
			if err != nil {
				return err
			}
			a.takeUses(cmd.Context(), store, paths)
			if a.json {
				docs := make([]tokenDoc, 0, len(records))
				for _, r := range records {
					docs = append(docs, describe(store, r))
				}
				return a.emit(map[string]any{"tokens": docs})
			}
			if len(records) == 0 {
				return a.print("No tokens: nobody can connect yet. Make one with its config: a2actl print-remote-config laptop\n")
			}
			var rows [][]string
			for _, r := range records {
				rows = append(rows, []string{clean(r.Name), toolsOf(r), scopesOf(r), lastUse(store, r, a.now()), expiry(r, a.now())})
			}
			header := []string{"NAME", "TOOLS", "SCOPE", "LAST USED", "EXPIRES"}
			return a.print(strings.Join(table(a.columns, header, rows), "\n") + "\n")
		},
	}
}

func newTokenShowCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "the terms of one token; the secret itself cannot be shown again",
		Example: "  a2actl token show laptop",
		Args:    exactly(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, paths, err := a.tokens()
			if err != nil {
				return err
			}
			r, err := store.Get(args[0])
			if err != nil {
				return a.tokenFailure(err, args[0])
			}
			a.takeUses(cmd.Context(), store, paths)
			if a.json {
				return a.emit(describe(store, r))
			}
			now := a.now()
			return a.print(strings.Join(columns([][]string{
				{"name", clean(r.Name)},
				{"role", string(r.Role)},
				{"tools", toolsOf(r)},
				{"scope", scopesOf(r)},
				{"made", ago(now, r.Created)},
				{"expires", expiry(r, now)},
				{"last used", lastUse(store, r, now)},
				{"waits", span(r.Wait) + " for an answer to begin"},
			}), "\n") + "\n")
		},
	}
}

func newTokenRotateCmd(a *app) *cobra.Command {
	var overlap time.Duration
	cmd := &cobra.Command{
		Use:     "rotate [NAME]",
		Short:   "replace a token's secret; the new one is printed this once",
		Example: "  a2actl token rotate laptop --overlap 24h",
		Long: `Replaces the secret of a token. The old one stops working at once, or after
--overlap. Without a name: the only token.`,
		Args: upTo(1, "at most one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			store, paths, err := a.tokens()
			if err != nil {
				return err
			}
			if name, err = a.onlyName(store, name, "a2actl token rotate"); err != nil {
				return err
			}
			a.takeUses(cmd.Context(), store, paths)
			used, client := store.Used(name)
			secret, record, err := store.Rotate(name, overlap)
			if err != nil {
				return a.tokenFailure(err, name)
			}
			a.tellDaemon(cmd.Context(), paths)
			if a.json {
				return a.emit(minted(record, secret))
			}
			if err := a.print(secret.Reveal() + "\n"); err != nil {
				return err
			}
			a.afterRotate(record.Name, overlap, used, client)
			return nil
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", 0, "how much `TIME` the old secret keeps working")
	return cmd
}

func (a *app) afterRotate(name string, overlap time.Duration, used time.Time, client bridge.Client) {
	first := "The old token stopped working now."
	if overlap > 0 {
		first = "The old token works for another " + span(overlap) + "."
	}
	if !used.IsZero() {
		first += fmt.Sprintf(" It was used %s%s", ago(a.now(), used), by(client))
		if overlap == 0 {
			first += ": that client gets 401 until it has the new one"
		}
		first += "."
	}
	a.say("%s", first)
	tail := ""
	if overlap == 0 {
		tail = "  Next time without a gap: --overlap 24h"
	}
	a.say("Full config for it: a2actl print-remote-config %s --rotate.%s", name, tail)
}

func newTokenRevokeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke NAME",
		Short:   "end a token; its streams are cut at once",
		Example: "  a2actl token revoke review-bot",
		Args:    exactly(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, paths, err := a.tokens()
			if err != nil {
				return err
			}
			if err := store.Revoke(args[0]); err != nil {
				return a.tokenFailure(err, args[0])
			}
			a.tellDaemon(cmd.Context(), paths)
			if a.json {
				return a.emit(map[string]any{"name": args[0], "revoked": true})
			}
			a.say("Token %q is over: its holder gets 401 from now on.", clean(args[0]))
			return nil
		},
	}
}

// tokens opens the token file, with the daemon up or down.
func (a *app) tokens() (*auth.Store, config.Paths, error) {
	p, _, err := a.files()
	if err != nil {
		return nil, p, err
	}
	store := auth.Open(p.Tokens, p.TokenUse, a.now)
	if err := store.Problem(); err != nil {
		return nil, p, withTry(err, "mend or move away "+p.Tokens)
	}
	return store, p, nil
}

// tellDaemon makes a running daemon take the tokens over at once. It sees the
// file by itself too: this only ends the streams that are open now.
func (a *app) tellDaemon(ctx context.Context, p config.Paths) {
	_, err := control.NewClient(p.ControlSocket).Reload(ctx)
	var gone *control.Unreachable
	if err != nil && !errors.As(err, &gone) {
		a.say("The daemon could not be told (%s); it takes the change over with the next request.", clean(err.Error()))
	}
}

// onlyName gives the name, or the only token's.
func (a *app) onlyName(store *auth.Store, name, command string) (string, error) {
	if name != "" {
		return name, nil
	}
	records, err := store.List()
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.Name)
	}
	switch len(names) {
	case 0:
		return "", &failure{err: errors.New("there are no tokens yet"), try: "a2actl print-remote-config laptop", code: exitNotFound}
	case 1:
		return names[0], nil
	}
	return "", usage(command+" "+names[0], "which one? There are: %s", strings.Join(names, ", "))
}

// checkGlobs refuses a glob that matches none of today's tools, as far as the
// daemon can be asked for them.
func (a *app) checkGlobs(ctx context.Context, p config.Paths, globs []string) error {
	if len(globs) == 0 {
		return nil
	}
	list, err := control.NewClient(p.ControlSocket).Tools(ctx)
	if err != nil || len(list.Tools) == 0 {
		a.say("The tools of this bridge are not known now, so %s was not checked against them.", strings.Join(globs, ", "))
		return nil
	}
	var hits []string
	for _, g := range globs {
		before := len(hits)
		for _, t := range list.Tools {
			if bridge.MatchAny([]string{g}, t) {
				hits = append(hits, clean(t))
			}
		}
		if len(hits) == before {
			return usage("", "no tool of this bridge matches %q; there are: %s", g, clean(atMost(list.Tools, 30, ", ")))
		}
	}
	a.say("Matches today: %s", atMost(hits, 30, ", "))
	return nil
}

func (a *app) tokenFailure(err error, name string) error {
	var ended *auth.EndedError
	switch {
	case errors.As(err, &ended):
		return a.endedFailure(name, ended.At)
	case errors.Is(err, bridge.NotFound):
		return withTry(err, "a2actl token list")
	case errors.Is(err, bridge.Conflict):
		return withTry(err, "a2actl token rotate "+name)
	}
	return err
}

// endedFailure is for a token that a new secret would not bring back.
func (a *app) endedFailure(name string, at time.Time) error {
	return &failure{err: fmt.Errorf("%q ended %s; a new secret would not work", name, made(a.now(), at)), code: exitRefused,
		try: fmt.Sprintf("a2actl token revoke %s, then a2actl token create %s", name, name)}
}

// takeUses adds what a running daemon knows of last uses: it writes them down
// now and then only.
func (a *app) takeUses(ctx context.Context, store *auth.Store, p config.Paths) {
	s, err := control.NewClient(p.ControlSocket).Status(ctx)
	if err != nil {
		return // the file says what it can
	}
	for _, peer := range s.Peers {
		if peer.LastSeenAt != nil {
			store.Learn(peer.Token, *peer.LastSeenAt, bridge.Client{Name: deref(peer.Client), Version: deref(peer.ClientVersion)})
		}
	}
}
