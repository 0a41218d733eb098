package broker

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the sizes of writes and reads, the bytes come through in order and end with EOF.
func TestPipeKeepsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 3*pipeBuffer), 1, 20).Draw(t, "writes")
		reads := rapid.SliceOfN(rapid.IntRange(1, 2*pipeBuffer), 1, 5).Draw(t, "reads")
		client, server := newPipe()
		var want bytes.Buffer
		for i, n := range sizes {
			want.Write(bytes.Repeat([]byte{byte(i + 1)}, n))
		}
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			rest := want.Bytes()
			for _, n := range sizes {
				if m, err := client.Write(rest[:n]); err != nil || m != n {
					t.Errorf("write of %d: %d, %v", n, m, err)
				}
				rest = rest[n:]
			}
			client.Close()
		}()
		var got []byte
		for i := 0; ; i++ {
			buf := make([]byte, reads[i%len(reads)])
			n, err := server.Read(buf)
			got = append(got, buf[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		server.Close()
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("got %d bytes, want %d", len(got), want.Len())
		}
	})
}

func TestPipeDeadlines(t *testing.T) {
	client, server := newPipe()
	defer client.Close()
	defer server.Close()
	client.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read: %v", err)
	}
	client.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
	n, err := client.Write(make([]byte, 3*pipeBuffer)) // nobody reads
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("write: %d, %v", n, err)
	}
	client.SetDeadline(time.Time{})
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatalf("write after the deadline was lifted: %v", err)
	}
	// A deadline moved into the past wakes a waiting reader.
	go client.SetReadDeadline(time.Unix(1, 0))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read: %v", err)
	}
}

func TestPipeCloseWakesBothSides(t *testing.T) {
	client, server := newPipe()
	errs := make(chan error, 2)
	go func() { _, err := client.Read(make([]byte, 1)); errs <- err }()
	go func() { _, err := server.Write(make([]byte, 3*pipeBuffer)); errs <- err }()
	// One byte of the large write may reach the reader before the close.
	client.Close()
	for range 2 {
		if err := <-errs; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("write to a closed peer: %v", err)
	}
}

func BenchmarkPipeRoundTrip(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 1 << 20} {
		b.Run(byteSize(size), func(b *testing.B) {
			client, server := newPipe()
			go func() {
				buf := make([]byte, size)
				for {
					if _, err := io.ReadFull(server, buf); err != nil {
						return
					}
					server.Write(buf[:16])
				}
			}()
			out, in := make([]byte, size), make([]byte, 16)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				client.Write(out)
				io.ReadFull(client, in)
			}
			client.Close()
		})
	}
}

func byteSize(n int) string {
	switch {
	case n >= 1<<20:
		return "1MiB"
	case n >= 1<<10:
		return "1KiB"
	}
	return "64B"
}
