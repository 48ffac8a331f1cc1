package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-bridge/a2a-bridge/internal/bridgetest"
)

// bare is the least that a Go program between a client and a host can do: check the token, take the request apart, send
// it on as one line over a unix socket, and splice the answer.
type bare struct {
	token string
	ids   atomic.Int64

	mu      sync.Mutex
	conn    net.Conn
	waiting map[string]chan []byte
}

// serveBare listens on a free port, prints its address and serves until its standard input ends.
func serveBare(socket, token string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b := &bare{token: "Bearer " + token, conn: conn, waiting: map[string]chan []byte{}}
	go b.read()
	srv := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is the signal
		_ = srv.Close()
	}()
	if _, err := fmt.Fprintf(os.Stdout, "http://%s/mcp\n", l.Addr()); err != nil {
		return err
	}
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != b.token {
		http.Error(w, "token", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := strconv.FormatInt(b.ids.Add(1), 10)
	answer := make(chan []byte, 1)
	b.mu.Lock()
	b.waiting[id] = answer
	_, err = fmt.Fprintf(b.conn, `{"id":%s,"method":"call","params":%s}`+"\n", id, m.Params)
	b.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	result := <-answer
	head := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(head)+len(result)+1))
	_, _ = io.WriteString(w, head) // the client sees a short body
	_, _ = w.Write(result)
	_, _ = io.WriteString(w, "}")
}

// read hands out the answers: {"id":N,"result":…}.
func (b *bare) read() {
	in := bufio.NewReaderSize(b.conn, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		id, rest, _ := bytes.Cut(line[len(`{"id":`):], []byte(`,"result":`))
		b.mu.Lock()
		answer := b.waiting[string(id)]
		delete(b.waiting, string(id))
		b.mu.Unlock()
		answer <- rest[:len(rest)-len("}\n")]
	}
}

// startBare starts the handler as a process of its own, with a host in this one that answers each tool with its result.
func startBare(t testing.TB, results map[string]json.RawMessage) (url, token string) {
	t.Helper()
	token = "bench"
	socket := bridgetest.SockDir(t) + "/host.sock"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the handler has ended by then
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		answerBare(conn, results)
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), self, bareArg, socket, token)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("the bare handler: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the bare handler did not start: %v", err)
	}
	return strings.TrimSpace(line), token
}

// answerBare is the host behind the bare handler.
func answerBare(conn net.Conn, results map[string]json.RawMessage) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     int64
			Params struct{ Name string }
		}
		if json.Unmarshal(line, &m) != nil {
			return
		}
		out := append(strconv.AppendInt([]byte(`{"id":`), m.ID, 10), `,"result":`...)
		out = append(append(out, results[m.Params.Name]...), "}\n"...)
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}
