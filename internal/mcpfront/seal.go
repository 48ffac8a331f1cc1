package mcpfront

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// The form of sealed texts.
const (
	sealVersion = 1
	sealMAC     = 16 // bytes of the MAC that are kept: nobody can try 2^128
	// maxSealed bounds what is looked at: more than any text that we make.
	maxSealed = 2048
)

// sealer makes texts that describe themselves and cannot be forged: a version,
// fields with their lengths, a MAC, all as base64url. They are not encrypted.
type sealer struct{ key []byte }

// newSealer derives a sealer for one purpose: a text made for one never opens
// with another.
func newSealer(key []byte, purpose string) sealer {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(purpose))
	return sealer{h.Sum(nil)}
}

func (s sealer) seal(fields ...[]byte) string {
	size := 1 + sealMAC
	for _, f := range fields {
		size += binary.MaxVarintLen16 + len(f)
	}
	b := append(make([]byte, 0, size), sealVersion)
	for _, f := range fields {
		b = binary.AppendUvarint(b, uint64(len(f)))
		b = append(b, f...)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(b)...))
}

// open gives the fields back if the text was made by this sealer and has as
// many as wanted.
func (s sealer) open(text string, want int) ([][]byte, bool) {
	if len(text) > maxSealed {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+sealMAC || b[0] != sealVersion {
		return nil, false
	}
	body, mac := b[:len(b)-sealMAC], b[len(b)-sealMAC:]
	if !hmac.Equal(mac, s.mac(body)) {
		return nil, false
	}
	fields := make([][]byte, 0, want)
	for rest := body[1:]; len(rest) > 0; {
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w) {
			return nil, false
		}
		fields = append(fields, rest[w:w+int(n)])
		rest = rest[w+int(n):]
	}
	return fields, len(fields) == want
}

func (s sealer) mac(b []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(b)
	return h.Sum(nil)[:sealMAC]
}
