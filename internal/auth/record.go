package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Record is what is known of a token; its secret is not.
type Record struct {
	ID      string
	Name    string
	Role    bridge.Role
	Scopes  []bridge.Scope
	Tools   []string      // globs over tool names; empty means all
	Created time.Time     //
	Rotated time.Time     // zero when it still has its first secret
	Expires time.Time     // zero means never
	Wait    time.Duration // how long its client waits for an answer to begin
}

// Expired reports whether the token is over at a time.
func (r Record) Expired(now time.Time) bool { return !r.Expires.IsZero() && !now.Before(r.Expires) }

func (r Record) peer() bridge.Peer {
	return bridge.Peer{Token: r.ID, Name: r.Name, Role: r.Role, Scopes: r.Scopes, Tools: r.Tools, Wait: r.Wait, Expires: r.Expires}
}

// DefaultWait is the patience of a client of which nothing is known: many give
// up after 30 s.
const DefaultWait = 25 * time.Second

// Limits of the file. Each check hashes once and looks up once, so they bound
// memory, not time.
const (
	maxFile    = 1 << 20
	maxTokens  = 1000
	maxRetired = 4000
	maxGlobs   = 64
	maxGlob    = 128

	minWait = time.Second
	maxWait = time.Hour
)

// keepRetired is how long the hash of a retired token is kept, so that its
// owner can be told who still uses it.
const keepRetired = 30 * 24 * time.Hour

// tokensFile is tokens.json. A version or field that this program does not
// know makes the file unreadable to it: a newer field may restrict a token.
type tokensFile struct {
	Version int          `json:"version"`
	Tokens  []fileToken  `json:"tokens"`
	Retired []fileRetire `json:"retired,omitempty"`
}

const fileVersion = 1

type fileToken struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Principal string         `json:"principal"` // "owner", or "peer:" and the name
	Hash      string         `json:"hash"`
	Scopes    []bridge.Scope `json:"scopes"`
	Tools     []string       `json:"tools,omitempty"`
	Created   time.Time      `json:"created"`
	Rotated   *time.Time     `json:"rotated,omitempty"`
	Expires   *time.Time     `json:"expires,omitempty"`
	Wait      string         `json:"wait"`
}

// fileRetire is a hash that is no longer its token's own. Until At it is still
// good (the overlap of a rotation); afterwards it only serves to name who
// still uses it.
type fileRetire struct {
	Token string    `json:"token"` // id of the record, which may be gone
	Name  string    `json:"name"`
	Hash  string    `json:"hash"`
	At    time.Time `json:"at"`
}

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// CheckName says what is wrong with the name of a token.
func CheckName(name string) error {
	if tokenName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%q cannot be the name of a token: use 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit", cut(name, 80))
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // see NewSecret
	return "t_" + base64.RawURLEncoding.EncodeToString(b[:])
}

func principal(role bridge.Role, name string) string {
	if role == bridge.RoleOwner {
		return string(bridge.RoleOwner)
	}
	return string(bridge.RolePeer) + ":" + name
}

func checkScopes(scopes []bridge.Scope) error {
	if len(scopes) == 0 {
		return errors.New("a token needs a scope: mcp, a2a or both")
	}
	for i, s := range scopes {
		if s != bridge.ScopeMCP && s != bridge.ScopeA2A {
			return fmt.Errorf("%q is not a scope: use mcp, a2a or both", cut(string(s), 40))
		}
		if slices.Contains(scopes[:i], s) {
			return fmt.Errorf("the scope %s is named twice", s)
		}
	}
	return nil
}

func checkGlobs(globs []string) error {
	if len(globs) > maxGlobs {
		return fmt.Errorf("%d tool globs; the limit is %d", len(globs), maxGlobs)
	}
	for _, g := range globs {
		if _, err := path.Match(g, ""); err != nil || g == "" || len(g) > maxGlob {
			return fmt.Errorf("%q is not a glob over tool names, such as read or mcp__*", cut(g, 40))
		}
	}
	return nil
}

func checkWait(d time.Duration) error {
	if d < minWait || d > maxWait {
		return fmt.Errorf("a wait of %s is out of range: use 1s to 1h", d)
	}
	return nil
}

// parseFile reads tokens.json strictly.
func parseFile(data []byte) (*tokensFile, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("it is empty")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f tokensFile
	if err := dec.Decode(&f); err != nil {
		return nil, describeJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows its end")
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("its version is %d; this program knows %d", f.Version, fileVersion)
	}
	return &f, f.check()
}

// describeJSON keeps the contents of the file out of the message.
func describeJSON(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON (at byte %d)", syntax.Offset)
	case errors.As(err, &typ):
		return fmt.Errorf("its field %s has the wrong type", typ.Field)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early")
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return errors.New("it has the " + cut(strings.TrimPrefix(err.Error(), "json: "), 80) + ", which this program does not know")
	default:
		return errors.New("it does not hold token records")
	}
}

func (f *tokensFile) check() error {
	if len(f.Tokens) > maxTokens || len(f.Retired) > maxRetired {
		return fmt.Errorf("it has more than %d tokens or %d retired ones", maxTokens, maxRetired)
	}
	names, ids, hashes := map[string]bool{}, map[string]bool{}, map[hash]bool{}
	for i, t := range f.Tokens {
		if _, err := t.record(); err != nil {
			return fmt.Errorf("token %d: %w", i+1, err)
		}
		h, err := parseHash(t.Hash)
		if err != nil {
			return fmt.Errorf("token %q: %w", t.Name, err)
		}
		if names[t.Name] || ids[t.ID] || hashes[h] {
			return fmt.Errorf("token %q is there twice", t.Name)
		}
		names[t.Name], ids[t.ID], hashes[h] = true, true, true
	}
	for i, r := range f.Retired {
		h, err := parseHash(r.Hash)
		if err != nil {
			return fmt.Errorf("retired token %d: %w", i+1, err)
		}
		if hashes[h] {
			return fmt.Errorf("retired token %d is there twice", i+1)
		}
		hashes[h] = true
	}
	return nil
}

func parseHash(s string) (hash, error) {
	var h hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, errors.New("its hash is not a SHA-256 in hexadecimal")
	}
	copy(h[:], b)
	return h, nil
}

func (h hash) String() string { return hex.EncodeToString(h[:]) }

func (t fileToken) record() (Record, error) {
	r := Record{ID: t.ID, Name: t.Name, Scopes: t.Scopes, Tools: t.Tools, Created: t.Created}
	if err := CheckName(t.Name); err != nil {
		return r, err
	}
	if t.ID == "" || len(t.ID) > 64 {
		return r, errors.New("it has no id")
	}
	switch t.Principal {
	case principal(bridge.RoleOwner, t.Name):
		r.Role = bridge.RoleOwner
	case principal(bridge.RolePeer, t.Name):
		r.Role = bridge.RolePeer
	default:
		return r, errors.New(`its principal is neither "owner" nor "peer:" and its name`)
	}
	if err := checkScopes(t.Scopes); err != nil {
		return r, err
	}
	if err := checkGlobs(t.Tools); err != nil {
		return r, err
	}
	wait, err := time.ParseDuration(t.Wait)
	if err != nil {
		return r, errors.New("its wait is not a duration")
	}
	if t.Rotated != nil {
		r.Rotated = *t.Rotated
	}
	if t.Expires != nil {
		r.Expires = *t.Expires
	}
	r.Wait = wait
	return r, checkWait(wait)
}

// cut shortens foreign text for a message.
func cut(s string, most int) string {
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
