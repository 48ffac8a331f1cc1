package hub_test

import (
	"net"
	"sync"
)

// freezer is a connection whose owner can be stopped, as by SIGSTOP: what is
// written to it waits, and it sends nothing.
type freezer struct {
	net.Conn
	mu     sync.Mutex
	thawed *sync.Cond
	frozen bool
	over   bool
}

func newFreezer(c net.Conn) *freezer {
	f := &freezer{Conn: c}
	f.thawed = sync.NewCond(&f.mu)
	return f
}

func (f *freezer) freeze() { f.set(true) }
func (f *freezer) thaw()   { f.set(false) }

func (f *freezer) set(frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = frozen
	f.thawed.Broadcast()
}

func (f *freezer) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.frozen && !f.over {
		f.thawed.Wait()
	}
}

func (f *freezer) Write(b []byte) (int, error) {
	f.wait()
	return f.Conn.Write(b)
}

func (f *freezer) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.wait()
	return n, err
}

func (f *freezer) Close() error {
	f.mu.Lock()
	f.over = true
	f.thawed.Broadcast()
	f.mu.Unlock()
	return f.Conn.Close()
}
