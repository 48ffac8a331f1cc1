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

// tooLongError is a line over the limit. It has been read to its end.
type tooLongError struct{ size, limit int }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("a line of %d bytes was dropped: the limit is %d", e.size, e.limit)
}

// lineReader reads lines of at most max bytes.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readBuffer), max: limit}
}

// next returns the next line without its newline. owned says that the line's
// memory is the caller's; otherwise it is good until the next call. A line
// over the limit is skipped and reported as *tooLongError. Bytes after the
// last newline are not a line.
func (l *lineReader) next() (line []byte, owned bool, err error) {
	line, err = l.r.ReadSlice('\n')
	if err == nil {
		if len(line)-1 > l.max {
			return nil, false, &tooLongError{size: len(line) - 1, limit: l.max}
		}
		return line[:len(line)-1], false, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, false, err
	}
	var long bytes.Buffer
	size := 0
	for errors.Is(err, bufio.ErrBufferFull) {
		size += len(line)
		if size <= l.max {
			long.Write(line)
		} else {
			long = bytes.Buffer{}
		}
		line, err = l.r.ReadSlice('\n')
	}
	if err != nil {
		return nil, false, err
	}
	if size += len(line) - 1; size > l.max {
		return nil, false, &tooLongError{size: size, limit: l.max}
	}
	long.Write(line[:len(line)-1])
	return long.Bytes(), true, nil
}
