package ctl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/config"
	"github.com/a2a-bridge/a2a-bridge/internal/control"
)

// The clients that we write configs for.
const (
	clientOMP    = "omp"
	clientClaude = "claude-code"
	clientCurl   = "curl"
)

// How long omp waits for an answer, in its config and as its token's wait: the
// bridge gives up first, with words, before the client does without.
const (
	ompWait    = 300 * time.Second
	ompTimeout = 330 * time.Second
)

// farPort is where the bridge appears on the other machine. It is not the
// bridge's own port, since people run a bridge on both machines.
const farPort = 17717

const (
	pastePlaceholder = "PASTE_TOKEN_HERE"
	defaultName      = "laptop"
)

type remoteConfig struct {
	grant           grant
	client, ssh     string
	host, tokenEnv  string
	port            int
	local           bool
	rotate, noToken bool
	portGiven       bool
}

func newRemoteConfigCmd(a *app) *cobra.Command {
	r := remoteConfig{}
	cmd := &cobra.Command{
		Use:   "print-remote-config [NAME]",
		Short: "ready-to-paste client config with a token for another machine",
		Example: `  ssh workbench a2actl print-remote-config laptop > mcp.json
  a2actl print-remote-config review-bot --client claude-code --tools read,grep --for 2h`,
		Long: `Prints the config for a client on another machine (stdout) and what to do with
it (stderr). NAME is the token's: a new one is minted, an existing one is never
shown again, so its place is marked, unless --rotate replaces it.`,
		Args: upTo(1, "at most one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.portGiven, r.grant.ends = cmd.Flags().Changed("port"), cmd.Flags().Changed("for")
			return a.remoteConfig(cmd, r, strings.Join(args, ""))
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.client, "client", clientOMP, "the `CLIENT` that reads it: omp, claude-code or curl")
	f.StringVar(&r.ssh, "ssh", "", "how the other machine reaches this one by ssh, `[USER@]HOST`")
	f.BoolVar(&r.local, "local", false, "for a client on this machine, without a tunnel")
	f.StringVar(&r.host, "host", "", "the `NAME` of an omp session, instead of the main one")
	f.IntVar(&r.port, "port", farPort, "the tunnel's `PORT` on the other machine")
	f.StringSliceVar(&r.grant.tools, "tools", nil, "a new token: only tools that match one of these `GLOBS`")
	f.DurationVar(&r.grant.expire, "for", 0, "a new token: ends after this `TIME`, such as 2h")
	f.BoolVar(&r.rotate, "rotate", false, "replace the secret of an existing token")
	f.BoolVar(&r.noToken, "no-token", false, "leave the token's place empty")
	f.StringVar(&r.tokenEnv, "token-env", "", "the client reads the token from this `VARIABLE`")
	_ = cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions([]string{clientOMP, clientClaude, clientCurl}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) remoteConfig(cmd *cobra.Command, r remoteConfig, name string) error {
	if err := r.check(cmd); err != nil {
		return err
	}
	store, paths, err := a.tokens()
	if err != nil {
		return err
	}
	if name, err = a.remoteName(store, name); err != nil {
		return err
	}
	bearer, talk, err := a.bearer(cmd, &r, store, paths, name)
	if err != nil {
		return err
	}
	at, status := a.address(cmd, paths)
	target := r.url(at, status.URL)
	snippet, err := r.snippet(r.serverName(), target, bearer)
	if err != nil {
		return err
	}
	if err := a.print(snippet); err != nil {
		return err
	}
	a.say("%s", talk)
	for _, line := range r.steps(at, target) {
		a.say("%s", line)
	}
	a.sayDoubts(r.host, status)
	return nil
}

// sayDoubts is why what was printed may not work now.
func (a *app) sayDoubts(host string, s control.Status) {
	if s.State == control.StateUnreachable {
		a.say("The bridge does not run here yet: %s", a.startHint())
		return
	}
	for _, p := range s.Problems {
		if p.ID == "config" && p.Level == control.Fail {
			a.say("Nobody is let in now: this bridge's configuration is broken. See: a2actl status")
			break
		}
	}
	var names []string
	for _, h := range s.Hosts {
		if h.Name == host {
			return
		}
		names = append(names, clean(h.Name))
	}
	switch {
	case host == "":
	case len(names) == 0:
		a.say("No session %q is attached now; there is none at all.", clean(host))
	default:
		a.say("No session %q is attached now; there is: %s", clean(host), strings.Join(names, ", "))
	}
}

// notYet are clients that people ask for.
var notYet = []string{"codex", "cursor", "vscode", "inspector"}

func (r remoteConfig) check(cmd *cobra.Command) error {
	try := cmd.CommandPath() + " --help"
	switch {
	case r.local && (r.ssh != "" || r.portGiven):
		return usage(try, "--local is for this machine: it goes with neither --ssh nor --port")
	case r.rotate && r.noToken || r.rotate && r.tokenEnv != "" || r.noToken && r.tokenEnv != "":
		return usage(try, "only one of --rotate, --no-token and --token-env can be meant")
	case slices.Contains(notYet, r.client):
		return usage(try, "--client %s is not there yet; there are omp, claude-code and curl", r.client)
	case r.client != clientOMP && r.client != clientClaude && r.client != clientCurl:
		return usage(try, "--client is omp, claude-code or curl, not %q", r.client)
	case r.port < 1 || r.port > 65535:
		return usage(try, "--port is between 1 and 65535, not %d", r.port)
	case r.host != "" && strings.ContainsAny(r.host, "/?#%"):
		return usage("a2actl host list", "%q is not a session's name", r.host)
	case r.tokenEnv != "" && !isVariable(r.tokenEnv):
		return usage(try, "--token-env takes the name of an environment variable, not %q", r.tokenEnv)
	case strings.HasPrefix(r.ssh, "-") || strings.ContainsAny(r.ssh, " \t\n'\"\\$`;&|<>()"):
		return usage(try, "--ssh takes [USER@]HOST, not %q", r.ssh)
	}
	return nil
}

func isVariable(s string) bool {
	for i, c := range s {
		if !(c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return true
}

// remoteName is the token to write the config for.
func (a *app) remoteName(store *auth.Store, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	records, err := store.List()
	if err != nil {
		return "", err
	}
	if len(records) == 0 {
		return defaultName, nil
	}
	return a.onlyName(store, "", "a2actl print-remote-config")
}

// bearer is the value after "Bearer " and what to say about it. It mints,
// rotates or leaves a placeholder; it never replaces a secret unasked.
func (a *app) bearer(cmd *cobra.Command, r *remoteConfig, store *auth.Store, paths config.Paths, name string) (string, string, error) {
	record, err := store.Get(name)
	known := err == nil
	if err != nil && !errors.Is(err, bridge.NotFound) {
		return "", "", err
	}
	wait := time.Duration(0)
	if r.client == clientOMP {
		wait = ompWait
	}
	limited := len(r.grant.tools) > 0 || r.grant.expire != 0
	switch {
	case limited && (known || r.noToken || r.tokenEnv != ""):
		return "", "", usage("a2actl print-remote-config OTHERNAME", "--tools and --for are for a new token; %q is not being made now", name)
	case r.noToken, r.tokenEnv != "":
		bearer, talk := pastePlaceholder, "The token is left out."
		if !r.noToken {
			bearer, talk = "${"+r.tokenEnv+"}", fmt.Sprintf("The client takes the token from $%s.", r.tokenEnv)
		}
		if !known {
			talk += fmt.Sprintf(" There is no token %q yet: a2actl token create %s", clean(name), clean(name))
		}
		return bearer, talk, nil
	case known && record.Expired(a.now()):
		return "", "", a.endedFailure(name, record.Expires)
	case known && !r.rotate:
		if wait > record.Wait {
			if err := store.SetWait(name, wait); err != nil {
				return "", "", err
			}
		}
		return pastePlaceholder, fmt.Sprintf("Token %q was made %s and cannot be shown again. Have it already? Put it in.\n"+
			"Lost it? a2actl print-remote-config %s --rotate      (its current client stops working)", name, made(a.now(), record.Created), name), nil
	case known:
		secret, record, err := store.Rotate(name, 0)
		if err != nil {
			return "", "", err
		}
		if wait > record.Wait {
			if err := store.SetWait(name, wait); err != nil {
				return "", "", err
			}
		}
		a.tellDaemon(cmd.Context(), paths)
		return secret.Reveal(), fmt.Sprintf("New secret for token %q (%s). It is shown this once; the old one stopped working now.", name, terms(record, a.now())), nil
	case r.rotate:
		return "", "", a.tokenFailure(err, name)
	}
	r.grant.scopes, r.grant.role = []string{string(bridge.ScopeMCP)}, string(bridge.RolePeer)
	o, err := r.grant.options(a, name)
	if err != nil {
		return "", "", err
	}
	if err := a.checkGlobs(cmd.Context(), paths, r.grant.tools); err != nil {
		return "", "", err
	}
	o.Wait = wait
	secret, record, err := store.Create(o)
	if err != nil {
		return "", "", a.tokenFailure(err, name)
	}
	return secret.Reveal(), fmt.Sprintf("New token %q (%s). It is shown this once.", name, terms(record, a.now())), nil
}

// address is where the bridge listens here, and its status as far as it can be
// had. The running daemon knows best: under systemd the unit decides.
func (a *app) address(cmd *cobra.Command, paths config.Paths) (string, control.Status) {
	s, err := control.NewClient(paths.ControlSocket).Status(cmd.Context())
	if err == nil && s.HTTP.Addr != "" {
		return s.HTTP.Addr, s
	}
	cfg, _ := config.Load(paths.Config, a.environ, nil)
	return cfg.HTTP.Addr(), control.Status{State: control.StateUnreachable, URL: cfg.HTTP.PublicURL}
}

// url is the address that the client uses.
func (r remoteConfig) url(addr, public string) string {
	at := net.JoinHostPort("127.0.0.1", fmt.Sprint(r.port))
	if r.local {
		at = addr
	}
	u := url.URL{Scheme: "http", Host: at, Path: "/mcp"}
	if p, err := url.Parse(public); err == nil && p.Scheme == "https" && !r.local && r.ssh == "" && !r.portGiven {
		u.Scheme, u.Host = p.Scheme, p.Host
	}
	if r.host != "" {
		u.Path += "/" + r.host
	}
	return u.String()
}

// steps is what the person does with it.
func (r remoteConfig) steps(addr, target string) []string {
	var file string
	switch r.client {
	case clientOMP:
		file = "~/.omp/agent/mcp.json on the other machine (chmod 600)"
		if r.local { // that file here is the lent omp's own
			file = "the mcp.json of the OTHER omp here (another user's ~/.omp/agent, or its PI_CODING_AGENT_DIR); " +
				"in this omp's own file it would see its own tools"
		}
	case clientClaude:
		file = "~/.claude.json on the other machine (chmod 600)"
		if r.local {
			file = "~/.claude.json here (chmod 600)"
		}
	case clientCurl:
		return nil
	}
	steps := []string{"Merge the JSON into " + file + "."}
	if strings.HasPrefix(target, "http://") && !r.local {
		steps = append(steps, "Keep this running there:\n   "+tunnel(r.port, addr, r.destination()))
	}
	start := map[string]string{clientOMP: "Start omp", clientClaude: "Start claude"}[r.client]
	if !r.local {
		start += " there"
	}
	switch r.client {
	case clientOMP:
		start += fmt.Sprintf(". Its tools are named mcp__%s_….", strings.ReplaceAll(r.serverName(), "-", "_"))
	case clientClaude:
		start += fmt.Sprintf("; claude mcp list says that it is connected. Its tools are named mcp__%s__….", r.serverName())
	}
	steps = append(steps, start)
	for i := range steps {
		steps[i] = fmt.Sprintf("%d. %s", i+1, steps[i])
	}
	return steps
}

// tunnel is the ssh line. It fails at once instead of pretending, and notices
// a dead connection.
func tunnel(port int, addr, dest string) string {
	return fmt.Sprintf("ssh -N -S none -o ExitOnForwardFailure=yes -o ServerAliveInterval=15 -o ServerAliveCountMax=3 -L 127.0.0.1:%d:%s %s", port, addr, dest)
}

// destination is how to reach this machine: as told, else user and host name.
func (r remoteConfig) destination() string {
	if r.ssh != "" {
		return r.ssh
	}
	host, err := os.Hostname()
	if err != nil {
		host = "HOST"
	}
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}
