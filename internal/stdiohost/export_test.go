package stdiohost

// ParseMessage lets the fuzz tests reach the parser of the child's lines.
func ParseMessage(line []byte) (id string, method string, err error) {
	m, err := parseMessage(line)
	return string(m.id), m.method, err
}

// IDOf finds an answer's id in the ends of its line.
func IDOf(head, tail []byte) (int64, bool) { return idOf(head, tail) }

// Escape makes foreign text fit for a terminal.
func Escape(s string) string { return escape(s) }
