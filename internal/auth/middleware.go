package auth

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// Unauthorized is the body of every 401: it says what to do and never why.
const Unauthorized = "This bridge needs a valid token. Its owner can make one: a2actl print-remote-config NAME\n"

// maxBearer bounds what is hashed as a token; ours have 48 bytes.
const maxBearer = 512

// bearer takes the token out of the Authorization headers of a request. The
// scheme counts in any case and any number of spaces may follow it; anything
// ambiguous is refused.
func bearer(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", errNoToken
	case len(values) > 1:
		return "", errHeader
	}
	value := strings.Trim(values[0], " \t")
	scheme, rest, _ := strings.Cut(value, " ")
	token := strings.TrimLeft(rest, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxBearer {
		return "", errHeader
	}
	for i := range len(token) {
		if !tokenByte(token[i]) {
			return "", errHeader
		}
	}
	return token, nil
}

// tokenByte reports whether RFC 6750 allows the byte in a token. Comma and
// space are not among them, so joined duplicates fail here.
func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~+/=", c) >= 0
}

// Middleware admits requests with a good token and puts its peer into their
// context. scope says which scope a request needs. Only the Authorization
// header is looked at; a token in the query string is none.
func (s *Store) Middleware(scope func(*http.Request) bridge.Scope, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := bearer(r.Header.Values("Authorization"))
		var peer bridge.Peer
		if err == nil {
			peer, err = s.Verify(token)
		}
		if err != nil {
			s.refused.count(err)
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, "text/plain; charset=utf-8", Unauthorized)
			return
		}
		if want := scope(r); !peer.Has(want) {
			s.refused.count(errScope)
			answer(w, http.StatusForbidden, "application/json",
				fmt.Sprintf(`{"error":"This token does not open %s. Its owner can make one that does: a2actl token create NAME --scope %s"}`+"\n", want, want))
			return
		}
		next.ServeHTTP(w, r.WithContext(bridge.WithPeer(r.Context(), peer)))
	})
}

func answer(w http.ResponseWriter, status int, contentType, body string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may be gone
}
