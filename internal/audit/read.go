package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
)

// maxLine bounds one line of the file; ours have less than a kilobyte, but for
// the JSON-RPC id of a caller who makes a point of it.
const maxLine = 2 << 20

// scan says what reading a file found.
type scan struct {
	size    int64 // of the file
	good    int64 // where the last readable line ends
	bad     int   // unreadable lines before that
	unended bool  // the last line is complete but for its newline
}

// read takes in a whole file.
func (x *index) read(r io.Reader) (scan, error) {
	var found scan
	open := map[bridge.CallID][]byte{}
	newest := make([][]byte, 0, 2*maxRecords)
	badSince := 0
	err := eachLine(r, func(line []byte, end int64, whole bool) {
		found.size = end
		if !x.take(line, open) || (!whole && !json.Valid(line)) {
			badSince++
			return
		}
		found.bad += badSince
		badSince = 0
		found.good, found.unended = end, !whole
		if len(newest) == cap(newest) {
			newest = newest[:copy(newest, newest[maxRecords:])]
			x.whole = false
		}
		newest = append(newest, bytes.Clone(line))
	})
	for id, line := range open {
		var l lineBody
		if json.Unmarshal(line, &l) != nil || l.Start == nil {
			found.bad++
			continue
		}
		x.open[id] = openStart{*l.Start, l.Start.Tier != bridge.TierRead}
	}
	for _, line := range newest {
		fold(line, x.record)
	}
	return found, err
}

type lineBody struct {
	Start *bridge.CallStart
	End   *bridge.CallEnd
}

// fold adds a line to the record of its call.
func fold(line []byte, record func(bridge.CallID) *Record) {
	var l lineBody
	if json.Unmarshal(line, &l) != nil {
		return
	}
	switch {
	case l.Start != nil:
		record(l.Start.ID).Start = l.Start
	case l.End != nil && l.End.Late:
		record(l.End.ID).Late = l.End
	case l.End != nil:
		record(l.End.ID).End = l.End
	}
}

// eachLine calls f for every line with the offset after it; whole is false for
// a last line without a newline. A line over maxLine is cut.
func eachLine(r io.Reader, f func(line []byte, end int64, whole bool)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var offset int64
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		offset += int64(len(part))
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) <= maxLine {
				long = append(long, part...)
			}
			continue
		}
		line := part
		if long != nil {
			line = append(long, part...)
			long = nil
		}
		if body, whole := bytes.CutSuffix(line, []byte{'\n'}); len(line) > 0 {
			f(body, offset, whole)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Recent returns the newest n calls, newest first.
func (l *Ledger) Recent(n int) ([]Record, error) {
	l.mu.Lock()
	x := l.index
	if n <= len(x.order) || (x.whole && !exists(l.rotated(1))) {
		defer l.mu.Unlock()
		out := make([]Record, 0, min(n, len(x.order)))
		for i := len(x.order) - 1; i >= 0 && len(out) < n; i-- {
			out = append(out, *x.recent[x.order[i]])
		}
		return out, nil
	}
	l.mu.Unlock()
	return l.search(n, func([]byte) bool { return true })
}

// Show returns what is known of one call, bridge.NotFound if nothing is.
func (l *Ledger) Show(id bridge.CallID) (Record, error) {
	l.mu.Lock()
	r, ok := l.index.recent[id]
	var out Record
	if ok {
		out = *r
	}
	l.mu.Unlock()
	if ok {
		return out, nil
	}
	needle := []byte(`{"id":"` + string(id) + `"`)
	found, err := l.search(1, func(line []byte) bool { return bytes.Contains(line, needle) })
	if err != nil {
		return Record{}, err
	}
	if len(found) == 0 {
		return Record{}, fmt.Errorf("call %s: %w", id, bridge.NotFound)
	}
	return found[0], nil
}

// search reads the files, newest first, until it has n records of the lines
// that match.
func (l *Ledger) search(n int, match func([]byte) bool) ([]Record, error) {
	var out []Record
	at := map[bridge.CallID]int{}
	for i := 0; i <= max(l.cfg.Keep, 0); i++ {
		if len(out) >= n && i > 0 {
			break
		}
		records, err := readRecords(l.rotated(i), match)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit file: %w", plain(err))
		}
		for _, r := range records {
			if j, known := at[r.ID]; known { // its start was carried over
				if out[j].Start == nil {
					out[j].Start = r.Start
				}
				continue
			}
			at[r.ID] = len(out)
			out = append(out, r)
		}
	}
	return out[:min(n, len(out))], nil
}

// readRecords folds one file into records, newest first.
func readRecords(path string, match func([]byte) bool) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records := map[bridge.CallID]*Record{}
	var order []*Record
	of := func(id bridge.CallID) *Record {
		r := records[id]
		if r == nil {
			r = &Record{ID: id}
			records[id] = r
			order = append(order, r)
		}
		return r
	}
	err = eachLine(f, func(line []byte, _ int64, _ bool) {
		if match(line) {
			fold(line, of)
		}
	})
	out := make([]Record, len(order))
	for i, r := range order {
		out[i] = *r
	}
	slices.Reverse(out)
	return out, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
