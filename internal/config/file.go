package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file; the whole list of settings with
// comments is a tenth of it.
const maxFile = 256 << 10

// readFile returns the good values of the file by key name, the line of each,
// and what is wrong with the rest.
func readFile(path string, keys map[string]Key) (map[string]any, map[string]int, []Problem) {
	if path == "" {
		return nil, map[string]int{}, nil
	}
	data, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, map[string]int{}, nil
	}
	if err != nil {
		return nil, map[string]int{}, []Problem{{Text: "cannot read the configuration file: " + err.Error()}}
	}
	return parseFile(data, keys)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hold us up
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %s", path, formatSize(maxFile))
	}
	return data, nil
}

// reader walks the nodes of one file.
type reader struct {
	keys     map[string]Key
	values   map[string]any
	lines    map[string]int
	problems []Problem
}

func parseFile(data []byte, keys map[string]Key) (map[string]any, map[string]int, []Problem) {
	r := &reader{keys: keys, values: map[string]any{}, lines: map[string]int{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return r.values, r.lines, nil // empty, or comments only
	case err != nil:
		return nil, r.lines, []Problem{syntaxProblem(err, data)}
	}
	if err := dec.Decode(&more); err == nil {
		r.add(more.Line, "", "a second document starts here: the file holds one")
	} else if !errors.Is(err, io.EOF) {
		return nil, r.lines, []Problem{syntaxProblem(err, data)}
	}
	if len(doc.Content) == 1 {
		switch root := doc.Content[0]; {
		case root.Kind == yaml.MappingNode:
			r.mapping("", root)
		case !isNull(root):
			r.add(root.Line, "", "must hold settings such as\nhttp:\n  port: 7717")
		}
	}
	return r.values, r.lines, r.problems
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntaxProblem takes the line out of the parser's own message. For a tab, the
// commonest fault, the parser names the line where the block began.
func syntaxProblem(err error, data []byte) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{Text: "is not YAML: " + text}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Text = "is not YAML: " + text[len(m[0]):]
	}
	if strings.Contains(text, "tab character") {
		for i, line := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(strings.TrimLeft(line, " "), "\t") {
				p.Line = i + 1
				p.Text = "is indented with a tab: YAML wants spaces"
				break
			}
		}
	}
	return p
}

func (r *reader) add(line int, key, text string) {
	r.problems = append(r.problems, Problem{Line: line, Key: key, Text: text})
}

// mapping reads the settings below one level; prefix is "" at the top and
// "http." inside http.
func (r *reader) mapping(prefix string, m *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		name, value := prefix+m.Content[i].Value, m.Content[i+1]
		line := m.Content[i].Line
		if r.lines[name] != 0 {
			r.add(line, name, fmt.Sprintf("is set twice: first in line %d", r.lines[name]))
			continue
		}
		key, known := r.keys[name]
		nested := prefix != "" || !strings.Contains(name, ".")
		switch {
		case m.Content[i].Kind != yaml.ScalarNode:
			r.add(line, "", "a setting's name must be a word")
		case value.Kind == yaml.AliasNode || value.Anchor != "":
			r.add(line, name, "uses an anchor or alias, which are not supported here")
		case known && !nested:
			section, leaf, _ := strings.Cut(name, ".")
			r.add(line, name, fmt.Sprintf("must be written on two levels:\n%s:\n  %s: …", section, leaf))
		case known:
			r.lines[name] = line
			r.value(key, value)
		case prefix == "" && r.isSection(name):
			r.lines[name] = line
			r.section(name, value)
		default:
			r.problems = append(r.problems, unknown(name, line, r.keys))
		}
	}
}

func (r *reader) isSection(name string) bool {
	for known := range r.keys {
		if strings.HasPrefix(known, name+".") {
			return true
		}
	}
	return false
}

func (r *reader) section(name string, n *yaml.Node) {
	switch {
	case n.Kind == yaml.MappingNode:
		r.mapping(name+".", n)
	case !isNull(n): // a section whose lines are all comments is null
		r.add(n.Line, name, "must be followed by indented settings")
	}
}

func (r *reader) value(k Key, n *yaml.Node) {
	var value any
	var err error
	switch {
	case isNull(n):
		err = errors.New("has no value")
	case k.Type == TypeList && n.Kind == yaml.SequenceNode:
		entries := make([]string, 0, len(n.Content))
		for _, e := range n.Content {
			if e.Kind != yaml.ScalarNode || isNull(e) {
				r.add(e.Line, k.Name, "must be a list of texts")
				return
			}
			entries = append(entries, e.Value)
		}
		value, err = k.parseList(entries)
	case k.Type == TypeList:
		err = fmt.Errorf("must be a list, such as [%s]", quote(n.Value))
	case n.Kind != yaml.ScalarNode:
		err = fmt.Errorf("must be a single value (%s)", k.Type)
	default:
		value, err = k.parse(n.Value)
	}
	if err != nil {
		r.add(n.Line, k.Name, err.Error())
		return
	}
	r.values[k.Name] = value
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
