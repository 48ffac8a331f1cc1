package service

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// names decides which Host and Origin headers we answer to. A page that the
// owner's browser shows must not reach the bridge under a name of its choice
// (DNS rebinding), while a tunnel on any local port must.
type names struct {
	hosts   map[string]bool // lower case, with or without a port
	origins map[string]bool // lower case
}

func newNames(allowedHosts, allowedOrigins []string, publicURL string) names {
	n := names{hosts: map[string]bool{}, origins: map[string]bool{}}
	for _, h := range allowedHosts {
		n.hosts[strings.ToLower(h)] = true
	}
	for _, o := range allowedOrigins {
		n.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		n.hosts[strings.ToLower(u.Host)] = true
	}
	return n
}

// refusal says why a request is not for us; empty when it is.
func (n names) refusal(r *http.Request) string {
	if !n.hostAllowed(r.Host) {
		return fmt.Sprintf("This bridge does not answer to the host name %q. Its owner can allow it with the setting http.allowed_hosts.", r.Host)
	}
	for _, o := range r.Header.Values("Origin") {
		if !n.originAllowed(o) {
			return fmt.Sprintf("This bridge does not take requests from web pages of %q. Its owner can allow them with the setting http.allowed_origins.", o)
		}
	}
	return ""
}

func (n names) hostAllowed(host string) bool {
	host = strings.ToLower(host)
	return loopbackName(host) || n.hosts[host] || n.hosts[withoutPort(host)]
}

func (n names) originAllowed(origin string) bool {
	origin = strings.ToLower(origin)
	if n.origins[origin] {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Path == "" && loopbackName(u.Host)
}

func withoutPort(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// loopbackName reports whether a host, with any port or none, can only mean
// this machine.
func loopbackName(hostport string) bool {
	host := strings.TrimSuffix(withoutPort(hostport), ".")
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
