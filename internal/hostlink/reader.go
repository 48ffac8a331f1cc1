package hostlink

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// readBuffer holds most frames whole; bigger ones get memory of their own.
	readBuffer = 64 << 10
)

// TooLongError is a line over the limit. It has been read to its end and
// dropped, but for its ends: they may say what it was about.
type TooLongError struct {
	Size, Limit int
	Head, Tail  []byte // at most 128 bytes each
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("a line of %d bytes was dropped: the limit is %d", e.Size, e.Limit)
}

// keptEnds bounds the ends of a dropped line.
const keptEnds = 128

// LineReader reads lines of bounded length.
type LineReader struct {
	r   *bufio.Reader
	max int
}

// NewLineReader reads lines of at most limit bytes, the newline not counted.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, readBuffer), max: limit}
}

// Next returns the next line without its newline. owned says that the line's
// memory is the caller's; otherwise it is good until the next call. A line
// over the limit is skipped and reported as *TooLongError, after which the
// reader goes on. Bytes after the last newline are no line.
func (l *LineReader) Next() (line []byte, owned bool, err error) {
	line, err = l.r.ReadSlice('\n')
	if err == nil {
		if line = line[:len(line)-1]; len(line) > l.max {
			return nil, false, l.tooLong(len(line), line[:min(len(line), keptEnds)], line)
		}
		return line, false, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, false, err
	}
	head := bytes.Clone(line[:keptEnds])
	var long bytes.Buffer
	size := 0
	for errors.Is(err, bufio.ErrBufferFull) {
		if size += len(line); size <= l.max {
			long.Write(line)
		} else {
			long = bytes.Buffer{}
		}
		line, err = l.r.ReadSlice('\n')
	}
	if err != nil {
		return nil, false, err
	}
	line = line[:len(line)-1]
	if size += len(line); size > l.max {
		return nil, false, l.tooLong(size, head, line)
	}
	long.Write(line)
	return long.Bytes(), true, nil
}

func (l *LineReader) tooLong(size int, head, end []byte) error {
	tail := end[max(0, len(end)-keptEnds):]
	return &TooLongError{Size: size, Limit: l.max, Head: bytes.Clone(head), Tail: bytes.Clone(tail)}
}
