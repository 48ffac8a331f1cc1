package config

import (
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/viper"
)

// Problem is one thing that is wrong with the settings. The setting that it
// names has its default instead.
type Problem struct {
	Line int    // of the file; 0 when the file is not to blame
	Key  string // empty when it is about the file as a whole
	Text string
	From string // the variable, or CommandLine; empty when it is the file
}

// CommandLine is where flags come from.
const CommandLine = "the command line"

// String is the problem in one line: where, which setting, what.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Key != "" {
		b.WriteString(p.Key + " ")
	}
	return b.String() + p.Text
}

// Load merges the defaults, the file (which need not exist; path "" means
// none), the variables A2A_BRIDGE_<KEY> of env (in the form of os.Environ)
// and the flags (by key name), each overriding those before it. It never
// fails: whatever is wrong is a Problem, and its setting falls back.
func Load(path string, env []string, flags map[string]string) (Config, []Problem) {
	keys := map[string]Key{}
	v := viper.New()
	for _, k := range Keys() {
		keys[k.Name] = k
		value, err := k.parseText(k.Default)
		if err != nil {
			panic("config: default of " + k.Name + " " + err.Error()) // a test parses every default
		}
		v.SetDefault(k.Name, value)
	}

	values, lines, problems := readFile(path, keys)
	for name, value := range values {
		// MergeConfigMap is the layer between defaults and overrides; it fails for no map.
		_ = v.MergeConfigMap(nest(name, value))
	}
	variables, from := map[string]string{}, map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && value != "" {
			variables[name] = value
		}
	}
	override := func(k Key, source, text string) {
		value, err := k.parseText(text)
		if err != nil {
			problems = append(problems, Problem{Key: k.Name, Text: err.Error() + " (from " + source + ")", From: source})
			return
		}
		v.Set(k.Name, value)
		lines[k.Name], from[k.Name] = 0, source
	}
	for _, k := range Keys() {
		if text, ok := variables[k.Env()]; ok {
			override(k, k.Env(), text)
		}
		if text, ok := flags[k.Name]; ok {
			override(k, CommandLine, text)
		}
	}
	for name := range flags {
		if _, ok := keys[name]; !ok {
			p := unknown(name, 0, keys)
			p.From = CommandLine
			problems = append(problems, p)
		}
	}

	var c Config
	if err := v.Unmarshal(&c); err != nil {
		panic("config: " + err.Error()) // every value has its field's type: a test sets each key
	}
	if !Loopback(c.HTTP.Host) && !c.HTTP.Insecure {
		problems = append(problems, Problem{Line: lines["http.host"], Key: "http.host", From: from["http.host"],
			Text: fmt.Sprintf("is %s, which others can reach without TLS: set http.insecure: true as well, and put a TLS proxy in front", c.HTTP.Host)})
		c.HTTP.Host = keys["http.host"].Default
	}
	sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
	return c, problems
}

// nest gives a dotted name the form that it has in the file.
func nest(name string, value any) map[string]any {
	section, leaf, ok := strings.Cut(name, ".")
	if !ok {
		return map[string]any{name: value}
	}
	return map[string]any{section: map[string]any{leaf: value}}
}

func unknown(name string, line int, keys map[string]Key) Problem {
	known := make([]string, 0, len(keys))
	for _, k := range Keys() {
		known = append(known, k.Name)
	}
	p := Problem{Line: line, Key: name, Text: "is not a setting; see: a2a-bridge serve --help"}
	if near := nearest(name, known); near != "" {
		p.Text = "is not a setting; did you mean " + near + "?"
	}
	return p
}
