package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/auth"
)

func TestSecretIsFreshAndRecognisable(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^a2ab_[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	for range 100 {
		text := auth.NewSecret().Reveal()
		if !form.MatchString(text) || seen[text] {
			t.Fatalf("token %q is malformed or was drawn before", text)
		}
		seen[text] = true
	}
}

type holder struct {
	Shown  auth.Secret
	hidden auth.Secret
	Ptr    *auth.Secret
	Any    any
	Map    map[string]auth.Secret
	List   []auth.Secret
}

func TestSecretCannotBePrinted(t *testing.T) {
	t.Parallel()
	s := auth.NewSecret()
	text := s.Reveal()
	h := holder{s, s, &s, s, map[string]auth.Secret{"a": s}, []auth.Secret{s}}
	var out bytes.Buffer
	for _, verb := range strings.Split("v +v #v s q x X d t T p c U e g b o", " ") {
		for _, value := range []any{s, &s, h, &h, []any{s, h}, fmt.Errorf("wrapped: %v", s), errors.Join(fmt.Errorf("%+v", h))} {
			fmt.Fprintf(&out, "%"+verb+"\n", value)
		}
	}
	fmt.Fprintln(&out, s, &s, h, &h)
	for _, handler := range []slog.Handler{
		slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}),
		slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}),
	} {
		slog.New(handler).With("with", s).Debug("message", "s", s, "ptr", &s, "h", h, "hp", &h, slog.Group("g", "s", s, "h", h))
	}
	for _, value := range []any{s, &s, h, &h, map[string]any{"s": s}} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	for i := 0; i+8 <= len(text); i++ {
		if part := text[i : i+8]; strings.Contains(out.String(), part) {
			t.Fatalf("part of the token (%q) was printed", part)
		}
	}
	if got := fmt.Sprintf("%s %v %d %#v", s, s, s, s); got != "[token] [token] [token] [token]" {
		t.Errorf("printed as %s", got)
	}
	if s.String() != "[token]" || s.GoString() != "[token]" {
		t.Errorf("String %s, GoString %s", s.String(), s.GoString())
	}
	if got := (auth.Secret{}).Reveal(); got != "" {
		t.Errorf("zero Secret reveals %q", got)
	}
	_ = h.hidden
}
