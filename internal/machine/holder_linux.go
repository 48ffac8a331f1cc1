package machine

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// PortHolder says who listens on an address (host:port) or on all addresses
// of its port; false when nobody does.
func PortHolder(addr string) (Holder, bool) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return Holder{}, false
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return Holder{}, false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		ip = netip.IPv4Unspecified() // any address of the port is in our way
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, s := range listening(table) {
			if s.addr.Port() == uint16(port) && overlap(s.addr.Addr(), ip) {
				return s.holder(), true
			}
		}
	}
	return Holder{}, false
}

// overlap reports whether two listeners on one port exclude each other.
func overlap(a, b netip.Addr) bool {
	a, b = a.Unmap(), b.Unmap()
	return a == b || a.IsUnspecified() || b.IsUnspecified()
}

// socket is a line of the kernel's table.
type socket struct {
	addr  netip.AddrPort
	uid   int
	inode string
}

// listening reads the listening sockets of a table such as /proc/net/tcp.
func listening(table string) []socket {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	const stateListen = "0A"
	var found []socket
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sl local_address rem_address st queues timer retrnsmt uid timeout inode …
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != stateListen {
			continue
		}
		addr, ok := parseAddr(fields[1])
		uid, err := strconv.Atoi(fields[7])
		if ok && err == nil {
			found = append(found, socket{addr: addr, uid: uid, inode: fields[9]})
		}
	}
	return found
}

// parseAddr reads 0100007F:1E25: the address as words in the machine's own
// order, and the port.
func parseAddr(s string) (netip.AddrPort, bool) {
	ipText, portText, ok := strings.Cut(s, ":")
	port, err := strconv.ParseUint(portText, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, false
	}
	words, err := hex.DecodeString(ipText)
	if err != nil || len(words)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	ip, ok := netip.AddrFromSlice(words)
	return netip.AddrPortFrom(ip, uint16(port)), ok
}

// holder finds the process of a socket among our own; others' are not looked
// into, even where we may.
func (s socket) holder() Holder {
	h := Holder{UID: s.uid}
	if s.uid != os.Geteuid() {
		return h
	}
	want := "socket:[" + s.inode + "]"
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != s.uid || !holds(dir, want) {
			continue
		}
		h.PID, _ = strconv.Atoi(filepath.Base(dir))
		name, _ := os.ReadFile(dir + "/comm")
		command, _ := os.ReadFile(dir + "/cmdline")
		h.Name = printable(string(name), maxCommand)
		h.Command = printable(strings.ReplaceAll(string(command), "\x00", " "), maxCommand)
		return h
	}
	return h
}

func holds(process, socket string) bool {
	descriptors, err := os.ReadDir(process + "/fd")
	if err != nil {
		return false // it ended, or is not to be looked into
	}
	for _, d := range descriptors {
		if target, err := os.Readlink(process + "/fd/" + d.Name()); err == nil && target == socket {
			return true
		}
	}
	return false
}
