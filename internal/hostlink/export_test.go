package hostlink

import "time"

// ParseFrame lets the fuzz tests reach the parser of foreign lines.
func ParseFrame(line []byte) error {
	_, err := parseFrame(line)
	return err
}

// SetWriteLimit shortens the wait for a slow reader.
func (c *Conn) SetWriteLimit(d time.Duration) { c.w.limit = d }

// SetKeepBytes lowers the limit on kept results.
func (h *Host) SetKeepBytes(n int) {
	h.calls.mu.Lock()
	defer h.calls.mu.Unlock()
	h.calls.limit = n
}
