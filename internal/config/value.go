package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parse reads the text form of one value, as it stands in a file, an
// environment variable or a flag. Lists are not read here: see parseList.
func (k Key) parse(text string) (any, error) {
	switch k.Type {
	case TypeBool:
		switch text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("must be true or false, not %s", quote(text))
	case TypeNumber:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < k.min || n > k.max {
			return nil, fmt.Errorf("must be a number from %d to %d, not %s", k.min, k.max, quote(text))
		}
		return int(n), nil
	case TypeDuration:
		return k.parseDuration(text, "")
	case TypeIdle:
		switch text {
		case "auto":
			return IdleAuto, nil
		case "off", "0", "false": // YAML readers may know off as false
			return time.Duration(0), nil
		}
		return k.parseDuration(text, "auto, off or ")
	case TypeSize:
		n, err := parseSize(text)
		if err != nil || n < k.min || n > k.max {
			return nil, fmt.Errorf("must be a size from %s to %s, such as 16MiB, not %s", formatSize(k.min), formatSize(k.max), quote(text))
		}
		return n, nil
	case TypeChoice:
		if !slices.Contains(k.Choices, text) {
			return nil, fmt.Errorf("must be one of %s, not %s", strings.Join(k.Choices, ", "), quote(text))
		}
		if k.Name == "log.level" {
			var level slog.Level
			err := level.UnmarshalText([]byte(text))
			return level, err
		}
		return text, nil
	default: // TypeText
		if text == "" && k.Default == "" {
			return "", nil
		}
		return text, k.check(text)
	}
}

// parseList checks the entries of a list.
func (k Key) parseList(entries []string) ([]string, error) {
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("has %d entries; the limit is %d", len(entries), maxEntries)
	}
	for _, e := range entries {
		if err := k.check(e); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// maxEntries bounds a list: each request or tool is compared with all entries.
const maxEntries = 256

// parseText reads the form that environment variables and flags have: a
// list's entries are separated by commas there.
func (k Key) parseText(text string) (any, error) {
	if k.Type != TypeList {
		return k.parse(text)
	}
	var entries []string
	for e := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
		if e = strings.TrimSpace(e); e != "" {
			entries = append(entries, e)
		}
	}
	return k.parseList(entries)
}

func (k Key) parseDuration(text, also string) (any, error) {
	d, err := time.ParseDuration(text)
	if err != nil || int64(d) < k.min || int64(d) > k.max {
		return nil, fmt.Errorf("must be %sa duration from %s to %s, such as 10s or 5m, not %s",
			also, formatDuration(k.min), formatDuration(k.max), quote(text))
	}
	return d, nil
}

// sizeUnits goes from large to small. KB and MB are refused: half of their
// users mean 1000 and the other half 1024.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"B", 1}, {"", 1}}

func parseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			return 0, errors.New("not a size")
		}
		return n * u.bytes, nil
	}
	return 0, errors.New("not a size")
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// formatDuration writes 5m0s as 5m.
func formatDuration(ns int64) string {
	s := time.Duration(ns).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// quote shows foreign text in a message: escaped, and cut if it is long.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

func checkIP(s string) error {
	if s == "localhost" {
		return errors.New("must be an IP address: write 127.0.0.1 (or ::1), since localhost can mean either")
	}
	if _, err := netip.ParseAddr(s); err != nil {
		return fmt.Errorf("must be an IP address such as 127.0.0.1, not %s", quote(s))
	}
	return nil
}

func checkHost(s string) error {
	u, err := url.Parse("http://" + s)
	if err != nil || s == "" || u.Host != s || strings.ContainsAny(s, "*, ") {
		return fmt.Errorf("must hold host names such as bridge.example.org, not %s", quote(s))
	}
	return nil
}

func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Scheme+"://"+u.Host != s || strings.Contains(s, "*") {
		return fmt.Errorf("must hold origins such as https://app.example.org, without a path, not %s", quote(s))
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("must be a URL such as https://bridge.example.org, not %s", quote(s))
	}
	return nil
}

func checkGlob(s string) error {
	if _, err := path.Match(s, ""); err != nil || s == "" {
		return fmt.Errorf("must hold globs such as mcp__*, not %s", quote(s))
	}
	return nil
}
