package hostlink

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf8"
)

// maxDepth bounds nesting, as encoding/json does: it parses payloads later.
const maxDepth = 10000

var errJSON = errors.New("not a JSON object")

// scanner walks JSON text without decoding it: it finds where values end and
// that they are well formed. encoding/json does the same at a tenth of the
// speed, which a 16 MiB result would feel.
type scanner struct {
	b     []byte
	at    int
	depth int
}

// EachField walks the JSON object that fills b and calls field (may be nil)
// with each key (its bytes between the quotes, escapes untouched) and each
// value's bytes, which point into b. Its error says that b is no JSON object, or
// is field's.
func EachField(b []byte, field func(key, value []byte) error) error {
	if !utf8.Valid(b) {
		return errors.New("not UTF-8")
	}
	s := scanner{b: b}
	s.space()
	if err := s.object(field); err != nil {
		return err
	}
	s.space()
	if s.at != len(s.b) {
		return errJSON
	}
	return nil
}

func (s *scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// take consumes c.
func (s *scanner) take(c byte) bool {
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) enter() error {
	if s.depth++; s.depth > maxDepth {
		return errors.New("nested too deeply")
	}
	return nil
}

// object consumes an object; field may be nil.
func (s *scanner) object(field func(key, value []byte) error) error {
	if !s.take('{') {
		return errJSON
	}
	if err := s.enter(); err != nil {
		return err
	}
	s.space()
	if s.take('}') {
		s.depth--
		return nil
	}
	for {
		s.space()
		start := s.at
		if err := s.text(); err != nil {
			return err
		}
		key := s.b[start+1 : s.at-1]
		s.space()
		if !s.take(':') {
			return errJSON
		}
		s.space()
		start = s.at
		if err := s.value(); err != nil {
			return err
		}
		if field != nil {
			if err := field(key, s.b[start:s.at]); err != nil {
				return err
			}
		}
		s.space()
		if s.take(',') {
			continue
		}
		if s.take('}') {
			s.depth--
			return nil
		}
		return errJSON
	}
}

func (s *scanner) array() error {
	s.at++
	if err := s.enter(); err != nil {
		return err
	}
	s.space()
	if s.take(']') {
		s.depth--
		return nil
	}
	for {
		s.space()
		if err := s.value(); err != nil {
			return err
		}
		s.space()
		if s.take(',') {
			continue
		}
		if s.take(']') {
			s.depth--
			return nil
		}
		return errJSON
	}
}

func (s *scanner) value() error {
	if s.at == len(s.b) {
		return errJSON
	}
	switch c := s.b[s.at]; {
	case c == '"':
		return s.text()
	case c == '{':
		return s.object(nil)
	case c == '[':
		return s.array()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) word(w string) error {
	if len(s.b)-s.at < len(w) || string(s.b[s.at:s.at+len(w)]) != w {
		return errJSON
	}
	s.at += len(w)
	return nil
}

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.b) && s.b[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > start
}

func (s *scanner) number() error {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return errJSON
	}
	if s.take('.') && !s.digits() {
		return errJSON
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return errJSON
		}
	}
	return nil
}

// text consumes a string, its quotes included.
func (s *scanner) text() error {
	if !s.take('"') {
		return errJSON
	}
	for {
		s.plain()
		if s.at == len(s.b) {
			return errJSON
		}
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return errJSON
		default:
			s.at++
		}
	}
}

// plain skips to the byte that ends the string, escapes or is a control
// character, eight bytes at a time; near the end of b it may stop early. Of the
// flags below the lowest is always right: borrows only travel upwards.
func (s *scanner) plain() {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	rest := s.b[s.at:]
	for len(rest) >= 8 {
		w := binary.LittleEndian.Uint64(rest)
		quote, back := w^(ones*'"'), w^(ones*'\\')
		if flags := ((w-ones*0x20)&^w | (quote-ones)&^quote | (back-ones)&^back) & highs; flags != 0 {
			rest = rest[bits.TrailingZeros64(flags)/8:]
			break
		}
		rest = rest[8:]
	}
	s.at = len(s.b) - len(rest)
}

func (s *scanner) escape() error {
	if s.at+1 >= len(s.b) {
		return errJSON
	}
	switch s.b[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return nil
	case 'u':
		if s.at+6 > len(s.b) {
			return errJSON
		}
		for _, c := range s.b[s.at+2 : s.at+6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return errJSON
			}
		}
		s.at += 6
		return nil
	default:
		return errJSON
	}
}
