package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode"
)

// position is where a stream stands, for resuming it.
type position struct {
	id    string        // of the last event; empty when it cannot be resumed
	retry time.Duration // what the server wants us to wait
}

// event is one event of a stream.
type event struct {
	id    string
	hasID bool
	data  []byte
	retry time.Duration
}

var errEvent = fmt.Errorf("%w: an event is larger than %d bytes", ErrNotMCP, maxAnswer)

// readEvent reads the next event with content; io.EOF or another error of the
// reader when the stream ended.
func readEvent(r *bufio.Reader) (event, error) {
	var e event
	var filled bool
	size := 0
	for {
		line, err := readLine(r, maxAnswer-size)
		if err != nil {
			return event{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if filled {
				return e, nil
			}
			size = 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":")) // a comment has an empty name
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			filled = true
		case "id":
			if !bytes.ContainsFunc(value, unicode.IsControl) { // it comes back as a header
				e.id, e.hasID, filled = string(value), true, true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry, filled = time.Duration(ms)*time.Millisecond, true
			}
		}
	}
}

// readLine returns one line without its end. The buffer is only as large as
// what came.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errEvent
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// readStream reads events until the response to the request id. With ErrLost
// it returns the position to resume at.
func readStream(body io.Reader, id string, onProgress func(string)) (json.RawMessage, position, error) {
	var at position
	r := bufio.NewReader(body)
	for {
		e, err := readEvent(r)
		if errors.Is(err, errEvent) {
			return nil, at, err
		}
		if err != nil {
			return nil, at, fmt.Errorf("%w: %w", ErrLost, err)
		}
		if e.hasID {
			at.id = e.id
		}
		if e.retry > 0 {
			at.retry = e.retry
		}
		if len(e.data) == 0 {
			continue // the first event of a resumable stream
		}
		var m message
		if err := json.Unmarshal(e.data, &m); err != nil {
			return nil, at, fmt.Errorf("%w: an event is not JSON", ErrNotMCP)
		}
		switch {
		case m.Method == "notifications/progress" && onProgress != nil:
			var p struct{ Message string }
			if json.Unmarshal(m.Params, &p) == nil {
				onProgress(p.Message)
			}
		case m.Method == "" && string(m.ID) == id:
			result, err := m.outcome()
			return result, at, err
		}
	}
}
