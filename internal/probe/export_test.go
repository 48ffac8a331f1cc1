package probe

import (
	"encoding/json"
	"io"
)

// ReadStream reads the events of a stream up to an answer.
func ReadStream(r io.Reader, id string, onProgress func(string)) (json.RawMessage, string, error) {
	raw, at, err := readStream(r, id, onProgress)
	return raw, at.id, err
}
