package bridge

import (
	"context"
	"path"
	"time"
)

// Role says on whose behalf a token speaks.
type Role string

// An owner's token may do what the owner may (steer a session, read every
// task); a peer's token sees only its own work.
const (
	RoleOwner Role = "owner"
	RolePeer  Role = "peer"
)

// Scope is a protocol face that a token opens.
type Scope string

// The scopes that a token can carry.
const (
	ScopeMCP Scope = "mcp"
	ScopeA2A Scope = "a2a"
)

// Peer is a remote caller who holds one of our tokens.
type Peer struct {
	Token   string        // id of the token's record; it survives rotation
	Name    string        // what the owner called the token
	Role    Role          //
	Scopes  []Scope       //
	Tools   []string      // globs over tool names; empty means all
	Wait    time.Duration // how long this peer's client can wait for an answer to begin
	Expires time.Time     // zero means never
}

// MayCall reports whether the peer's globs admit the tool. A glob is what
// path.Match takes; a malformed one admits nothing.
func (p Peer) MayCall(tool string) bool {
	return len(p.Tools) == 0 || MatchAny(p.Tools, tool)
}

// Has reports whether the peer's token carries the scope.
func (p Peer) Has(s Scope) bool {
	for _, have := range p.Scopes {
		if have == s {
			return true
		}
	}
	return false
}

// MatchAny reports whether one of the globs matches the name.
func MatchAny(globs []string, name string) bool {
	for _, g := range globs {
		if ok, err := path.Match(g, name); err == nil && ok {
			return true
		}
	}
	return false
}

// Client is what a caller says of itself (clientInfo). It is untrusted text,
// fit for display after escaping and for nothing else.
type Client struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

type peerKey struct{}

// WithPeer puts the authenticated caller into a request's context.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerFrom returns the caller that WithPeer put there.
func PeerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
