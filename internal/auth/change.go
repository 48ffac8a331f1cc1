package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// refusal is an error that is about its kind and says so in its own words.
type refusal struct {
	kind bridge.Kind
	text string
}

func refuse(kind bridge.Kind, format string, args ...any) error {
	return &refusal{kind: kind, text: fmt.Sprintf(format, args...)}
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

// EndedError refuses a new secret for a token that has expired: it would not
// work. Its kind is bridge.Conflict.
type EndedError struct {
	Name string
	At   time.Time // when it ended
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("the token %q ended at %s; a new secret would not work", e.Name, e.At.Format(time.RFC3339))
}

// Unwrap gives the kind.
func (e *EndedError) Unwrap() error { return bridge.Conflict }

// CreateOptions describe a new token.
type CreateOptions struct {
	Name    string
	Role    bridge.Role    // default peer
	Scopes  []bridge.Scope // default mcp
	Tools   []string       // globs; none means all tools
	Expires time.Time      // zero means never
	Wait    time.Duration  // default DefaultWait
}

// Create mints a token. The error is bridge.Conflict when the name is taken and
// bridge.BadArguments when the options are wrong.
func (s *Store) Create(o CreateOptions) (Secret, Record, error) {
	if o.Role == "" {
		o.Role = bridge.RolePeer
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []bridge.Scope{bridge.ScopeMCP}
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if err := o.check(s.now()); err != nil {
		return Secret{}, Record{}, refuse(bridge.BadArguments, "%s", err)
	}
	secret := NewSecret()
	t := fileToken{ID: newID(), Name: o.Name, Principal: principal(o.Role, o.Name), Hash: hashOf(secret.Reveal()).String(),
		Scopes: o.Scopes, Tools: o.Tools, Created: s.now().UTC(), Wait: o.Wait.String()}
	if !o.Expires.IsZero() {
		expires := o.Expires.UTC()
		t.Expires = &expires
	}
	err := s.change(func(f *tokensFile) error {
		if f.find(o.Name) != nil {
			return refuse(bridge.Conflict, "a token named %q exists already", o.Name)
		}
		if len(f.Tokens) >= maxTokens {
			return fmt.Errorf("there are %d tokens already, which is the limit\ntry: a2actl token revoke NAME", maxTokens)
		}
		f.Tokens = append(f.Tokens, t)
		return nil
	})
	if err != nil {
		return Secret{}, Record{}, err
	}
	r, err := t.record()
	return secret, r, err
}

func (o CreateOptions) check(now time.Time) error {
	if err := CheckName(o.Name); err != nil {
		return err
	}
	if o.Role != bridge.RoleOwner && o.Role != bridge.RolePeer {
		return fmt.Errorf("%q is not a role: use owner or peer", cut(string(o.Role), 40))
	}
	if err := checkScopes(o.Scopes); err != nil {
		return err
	}
	if err := checkGlobs(o.Tools); err != nil {
		return err
	}
	if !o.Expires.IsZero() && !o.Expires.After(now) {
		return fmt.Errorf("the token would expire at %s, which has passed", o.Expires.Format(time.RFC3339))
	}
	return checkWait(o.Wait)
}

// Rotate gives a token a new secret. The old one stops working after the
// overlap, at once if that is 0. Without a name it means the only token. The
// error is bridge.NotFound for an unknown name or when there is none,
// bridge.Conflict when a name is needed, and an *EndedError for a token that
// has expired.
func (s *Store) Rotate(name string, overlap time.Duration) (Secret, Record, error) {
	if overlap < 0 || overlap > keepRetired {
		return Secret{}, Record{}, fmt.Errorf("an overlap of %s is out of range: use 0s to 720h", overlap)
	}
	secret, now := NewSecret(), s.now().UTC()
	var changed fileToken
	err := s.change(func(f *tokensFile) error {
		if name == "" {
			only, err := f.only()
			if err != nil {
				return err
			}
			name = only
		}
		t := f.find(name)
		if t == nil {
			return notFound(name)
		}
		if t.Expires != nil && !now.Before(*t.Expires) {
			return &EndedError{Name: name, At: *t.Expires}
		}
		f.retire(*t, now.Add(overlap))
		if overlap == 0 { // earlier overlaps end with it: the point may be a leak
			f.endOverlaps(t.ID, now)
		}
		t.Hash, t.Rotated = hashOf(secret.Reveal()).String(), &now
		changed = *t
		return nil
	})
	if err != nil {
		return Secret{}, Record{}, err
	}
	r, err := changed.record()
	return secret, r, err
}

// Revoke ends a token at once.
func (s *Store) Revoke(name string) error {
	return s.change(func(f *tokensFile) error {
		t := f.find(name)
		if t == nil {
			return notFound(name)
		}
		now, gone := s.now().UTC(), t.ID
		f.retire(*t, now)
		f.endOverlaps(gone, now)
		f.Tokens = slices.DeleteFunc(f.Tokens, func(t fileToken) bool { return t.ID == gone })
		return nil
	})
}

// SetWait records how long a token's client waits for an answer to begin.
func (s *Store) SetWait(name string, d time.Duration) error {
	if err := checkWait(d); err != nil {
		return err
	}
	return s.change(func(f *tokensFile) error {
		t := f.find(name)
		if t == nil {
			return notFound(name)
		}
		t.Wait = d.String()
		return nil
	})
}

// List returns all tokens in the order of their making.
func (s *Store) List() ([]Record, error) {
	snap := s.snapshot()
	return slices.Clone(snap.records), snap.problem
}

// Get returns one token by name; bridge.NotFound when there is none.
func (s *Store) Get(name string) (Record, error) {
	snap := s.snapshot()
	if snap.problem != nil {
		return Record{}, snap.problem
	}
	for _, r := range snap.records {
		if r.Name == name {
			return r, nil
		}
	}
	return Record{}, notFound(name)
}

func notFound(name string) error {
	return refuse(bridge.NotFound, "no token is named %q", cut(name, 80))
}

func (f *tokensFile) find(name string) *fileToken {
	for i := range f.Tokens {
		if f.Tokens[i].Name == name {
			return &f.Tokens[i]
		}
	}
	return nil
}

// only returns the name of the only token.
func (f *tokensFile) only() (string, error) {
	switch len(f.Tokens) {
	case 0:
		return "", refuse(bridge.NotFound, "there are no tokens")
	case 1:
		return f.Tokens[0].Name, nil
	}
	names := make([]string, 0, len(f.Tokens))
	for _, t := range f.Tokens {
		names = append(names, t.Name)
	}
	return "", refuse(bridge.Conflict, "which token? There are %s", strings.Join(names, ", "))
}

func (f *tokensFile) retire(t fileToken, at time.Time) {
	f.Retired = append(f.Retired, fileRetire{Token: t.ID, Name: t.Name, Hash: t.Hash, At: at})
}

func (f *tokensFile) endOverlaps(id string, now time.Time) {
	for i := range f.Retired {
		if r := &f.Retired[i]; r.Token == id && r.At.After(now) {
			r.At = now
		}
	}
}

// prune forgets what was retired long ago.
func (f *tokensFile) prune(now time.Time) {
	f.Retired = slices.DeleteFunc(f.Retired, func(r fileRetire) bool { return now.Sub(r.At) > keepRetired })
	if over := len(f.Retired) - maxRetired; over > 0 {
		f.Retired = f.Retired[over:]
	}
}

// Waiting for the lock on the side file: another change takes milliseconds.
const (
	lockWait = 5 * time.Second
	lockPoll = 10 * time.Millisecond
)

// change edits the file under the lock and replaces it. A file that cannot be
// read is left alone, with the error of Problem.
func (s *Store) change(edit func(*tokensFile) error) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	side := flock.New(s.path+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockWait) //nolint:forbidigo // bounded, and a change has no caller to wait for
	defer cancel()
	if ok, err := side.TryLockContext(ctx, lockPoll); err != nil || !ok {
		return fmt.Errorf("another program is changing %s: %w", s.path, err)
	}
	defer func() { _ = side.Close() }()

	_, f, err := s.load()
	if err != nil {
		return err
	}
	if f == nil {
		f = &tokensFile{Version: fileVersion, Tokens: []fileToken{}}
	}
	if err := edit(f); err != nil {
		return err
	}
	f.prune(s.now())
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := writePrivate(s.path, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	s.snapshot()
	return nil
}

// writePrivate replaces a file by one that only we can read, whatever the
// umask, and so that a crash leaves the old or the new one.
func writePrivate(path string, data []byte) error {
	return renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
}
