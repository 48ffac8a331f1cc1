package ctl

import (
	"fmt"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// tokenDoc is a token in JSON. Token is set where a secret was just made, and
// nowhere else.
type tokenDoc struct {
	Name       string         `json:"name"`
	Role       bridge.Role    `json:"role"`
	Scopes     []bridge.Scope `json:"scopes"`
	Tools      []string       `json:"tools"` // empty: all
	CreatedAt  time.Time      `json:"created_at"`
	ExpiresAt  *time.Time     `json:"expires_at"`
	WaitS      int            `json:"wait_s"`
	LastUsedAt *time.Time     `json:"last_used_at"`
	Client     *string        `json:"client"`
	Token      string         `json:"token,omitempty"`
}

func document(r auth.Record) tokenDoc {
	d := tokenDoc{Name: r.Name, Role: r.Role, Scopes: r.Scopes, Tools: r.Tools, CreatedAt: r.Created, WaitS: int(r.Wait.Seconds())}
	if d.Tools == nil {
		d.Tools = []string{}
	}
	if !r.Expires.IsZero() {
		d.ExpiresAt = &r.Expires
	}
	return d
}

// describe adds the last use.
func describe(store *auth.Store, r auth.Record) tokenDoc {
	d := document(r)
	if at, client := store.Used(r.Name); !at.IsZero() {
		d.LastUsedAt, d.Client = &at, &client.Name
	}
	return d
}

// minted adds the secret, this once.
func minted(r auth.Record, s auth.Secret) tokenDoc {
	d := document(r)
	d.Token = s.Reveal()
	return d
}

// terms is what a token allows, in half a sentence.
func terms(r auth.Record, now time.Time) string {
	tools := "all tools"
	if len(r.Tools) > 0 {
		tools = "tools " + clean(strings.Join(r.Tools, ", "))
	}
	end := "no expiry"
	if !r.Expires.IsZero() {
		end = "ends " + in(now, r.Expires.Add(time.Second/2)) // the half second is what minting took
	}
	if r.Role == bridge.RoleOwner {
		tools = "owner, " + tools
	}
	return tools + ", " + end
}

func toolsOf(r auth.Record) string {
	if len(r.Tools) == 0 {
		return "all"
	}
	return clean(strings.Join(r.Tools, ","))
}

func scopesOf(r auth.Record) string {
	var words []string
	for _, s := range r.Scopes {
		words = append(words, string(s))
	}
	return strings.Join(words, ",")
}

func lastUse(store *auth.Store, r auth.Record, now time.Time) string {
	at, client := store.Used(r.Name)
	if at.IsZero() {
		return "never"
	}
	return ago(now, at) + comma(client)
}

func expiry(r auth.Record, now time.Time) string {
	if r.Expires.IsZero() {
		return "never"
	}
	return in(now, r.Expires)
}

func comma(c bridge.Client) string {
	if c.Name == "" {
		return ""
	}
	return ", " + clean(c.Name)
}

func by(c bridge.Client) string {
	if c.Name == "" {
		return ""
	}
	return fmt.Sprintf(" by %s", clean(c.Name))
}
