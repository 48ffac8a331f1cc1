package hub

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// pidAlive reports whether a process of that number is there and no zombie. A
// host in another pid namespace looks dead from the start, which is why the
// answer is trusted only for a pid that was alive when its host attached.
func pidAlive(pid int) bool {
	if pid <= 1 {
		return false
	}
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !procfs()
	}
	i := bytes.LastIndex(stat, []byte(") ")) // the name before it may hold anything
	if i < 0 || i+2 >= len(stat) {
		return true
	}
	state := stat[i+2]
	return state != 'Z' && state != 'X'
}

// procfs reports whether the system has one at all.
func procfs() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
