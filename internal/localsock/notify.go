package localsock

import (
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// The functions below talk to the service manager when there is one (the
// variable NOTIFY_SOCKET) and do nothing otherwise. An error means that it
// could not be reached: worth a warning, never a reason to stop.

// Ready says that we listen, or that a reload is over.
func Ready() error { return notify(daemon.SdNotifyReady) }

// Stopping says that we are about to leave.
func Stopping() error { return notify(daemon.SdNotifyStopping) }

// Reloading says that we read our settings again; Ready ends it.
func Reloading() error {
	return notify(daemon.SdNotifyReloading + "\n" + strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
}

// Status is the line that systemctl status shows.
func Status(line string) error {
	return notify("STATUS=" + strings.ReplaceAll(line, "\n", " "))
}

// Alive feeds the watchdog.
func Alive() error { return notify(daemon.SdNotifyWatchdog) }

// Watchdog returns how often Alive must be called at the latest; 0 when
// nobody watches. Call it at half of that.
func Watchdog() (time.Duration, error) { return daemon.SdWatchdogEnabled(false) }

func notify(state string) error {
	_, err := daemon.SdNotify(false, state) // children need it no less: keep the variable
	return err
}
