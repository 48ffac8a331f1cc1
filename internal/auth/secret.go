package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
)

// Prefix begins every token, for people and for secret scanners.
const Prefix = "a2ab_"

// Secret is a bearer token that cannot be printed by accident. The text sits
// behind a pointer, because fmt does not call String on unexported fields of
// other structs; there it shows an address.
type Secret struct{ text *string }

const masked = "[token]"

// NewSecret draws a fresh token.
func NewSecret() Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails: it ends the process instead
	text := Prefix + base64.RawURLEncoding.EncodeToString(b[:])
	return Secret{text: &text}
}

// Reveal returns the token itself, for the one place that shows it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String, GoString, Format, LogValue, MarshalText and MarshalJSON all hide the
// token.
func (Secret) String() string { return masked }

// GoString hides the token from %#v.
func (Secret) GoString() string { return masked }

// Format hides the token from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(masked)) }

// LogValue hides the token from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText hides the token from encoders of text.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// MarshalJSON hides the token from JSON.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// hash is what is kept of a token.
type hash [sha256.Size]byte

func hashOf(token string) hash { return sha256.Sum256([]byte(token)) }
