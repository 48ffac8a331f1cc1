package hostlink_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/a2a-bridge/a2a-bridge/internal/bridge"
	"github.com/a2a-bridge/a2a-bridge/internal/hostlink"
)

// BenchmarkCall is one call over a real unix socket: daemon's end, host's
// end, the tool's goroutine, accepted, the answer and its ack.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := newDaemon(b)
			result := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("All work and no play.\\n", size/23) + `"}]}`)
			startHost(b, d, hostlink.HostConfig{Run: fixedRun(result)})
			l := <-d.links
			b.SetBytes(int64(len(result)))
			for i := 0; b.Loop(); i++ {
				id := bridge.CallID(fmt.Sprint("c_", i))
				if _, err := l.Do(b.Context(), hostlink.MethodCall, hostlink.CallParams{CallID: id, Ref: json.RawMessage(`{"front":"mcp"}`), Tool: "tool",
					Args: json.RawMessage(`{"path":"/home/u/app/main.go"}`), Peer: hostlink.PeerInfo{Name: "laptop", Client: "omp"}}, nil); err != nil {
					b.Fatal(err)
				}
				if err := l.Notify(hostlink.MethodAck, hostlink.Ack{CallID: id}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEcho is the bare request and answer of two Conns.
func BenchmarkEcho(b *testing.B) {
	asking, _ := link(b, handler{})
	for b.Loop() {
		if _, err := asking.Do(b.Context(), hostlink.MethodRequest, json.RawMessage(`{"path":"/home/u/app/main.go"}`), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func fixedRun(result json.RawMessage) run {
	return func(context.Context, hostlink.CallParams, hostlink.Emitter) (json.RawMessage, *hostlink.Error) {
		return result, nil
	}
}
