package config

import (
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// Config holds every setting. Keys() documents each of them.
type Config struct {
	HTTP     HTTP          `mapstructure:"http"`
	Limits   Limits        `mapstructure:"limits"`
	Queue    Queue         `mapstructure:"queue"`
	Approval Approval      `mapstructure:"approval"`
	Resume   Resume        `mapstructure:"resume"`
	IdleExit time.Duration `mapstructure:"idle_exit"` // 0: never; IdleAuto: see IdleAfter
	Exposure Exposure      `mapstructure:"exposure"`
	Audit    Audit         `mapstructure:"audit"`
	Log      Log           `mapstructure:"log"`
	Tasks    Tasks         `mapstructure:"tasks"`
	Push     Push          `mapstructure:"push"`
}

// HTTP is where the bridge listens and which names it answers to.
type HTTP struct {
	Host           string   `mapstructure:"host"`
	Port           int      `mapstructure:"port"`
	Insecure       bool     `mapstructure:"insecure"`
	AllowedHosts   []string `mapstructure:"allowed_hosts"`
	AllowedOrigins []string `mapstructure:"allowed_origins"`
	PublicURL      string   `mapstructure:"public_url"`
}

// Addr is the address to listen on when nobody passes us a socket.
func (h HTTP) Addr() string { return net.JoinHostPort(h.Host, strconv.Itoa(h.Port)) }

// Limits bound what one request or one host can take.
type Limits struct {
	Body        int64 `mapstructure:"body"`
	Concurrency int   `mapstructure:"concurrency"`
	Result      int64 `mapstructure:"result"`
}

// Queue says what happens to calls while no host is attached.
type Queue struct {
	Mode     string        `mapstructure:"mode"`
	Wait     time.Duration `mapstructure:"wait"`
	MaxCalls int           `mapstructure:"max_calls"`
	MaxBytes int64         `mapstructure:"max_bytes"`
}

// The values of queue.mode and tasks.when_busy.
const (
	ModeQueue  = "queue"
	ModeReject = "reject"
	ModeSteer  = "steer" // tasks only
)

// Approval bounds the wait for the owner's answer.
type Approval struct {
	Timeout time.Duration `mapstructure:"timeout"`
}

// Resume bounds the wait for a lost host and for a lost client.
type Resume struct {
	Grace time.Duration `mapstructure:"grace"`
	Keep  time.Duration `mapstructure:"keep"`
}

// Exposure says which tools peers never see.
type Exposure struct {
	Deny         []string `mapstructure:"deny"`
	DenyMCPTools bool     `mapstructure:"deny_mcp_tools"`
}

// Audit bounds the ledger's files.
type Audit struct {
	MaxBytes int64 `mapstructure:"max_bytes"`
	Keep     int   `mapstructure:"keep"`
}

// Log says what is written to stderr, and how.
type Log struct {
	Level  slog.Level `mapstructure:"level"`
	Format string     `mapstructure:"format"`
}

// The values of log.format.
const (
	FormatAuto = "auto" // the journal's prefixes under the journal, else text
	FormatText = "text"
	FormatJSON = "json"
)

// Tasks says how A2A work reaches the host's session.
type Tasks struct {
	WhenBusy  string        `mapstructure:"when_busy"`
	HostGrace time.Duration `mapstructure:"host_grace"`
	Images    bool          `mapstructure:"images"`
	Documents bool          `mapstructure:"documents"`
}

// Push says where task notifications may go.
type Push struct {
	AllowedOrigins []string `mapstructure:"allowed_origins"`
}

// IdleAuto is the default of idle_exit: it depends on who can start us again.
const IdleAuto time.Duration = -1

// idleUnderActivation is what IdleAuto means when a connection starts us again.
const idleUnderActivation = 10 * time.Minute

// IdleAfter says after how much idle time the daemon leaves; 0 means never.
// activated tells whether systemd keeps our sockets and starts us again.
func (c Config) IdleAfter(activated bool) time.Duration {
	switch {
	case c.IdleExit != IdleAuto:
		return c.IdleExit
	case activated:
		return idleUnderActivation
	default:
		return 0
	}
}

// Loopback reports whether the host of an address is a loopback address.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Default returns the settings of a machine without a configuration file.
func Default() Config {
	c, _ := Load("", nil, nil)
	return c
}
