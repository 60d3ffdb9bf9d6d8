// SPDX-License-Identifier: Apache-2.0

package gitsource_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/render/gitsource"
)

// shortTimeout is for servers that say nothing.
const shortTimeout = 100 * time.Millisecond

// A cutter is a tunnel to one address that can be cut.
type cutter struct {
	t        *testing.T
	to       string
	listener net.Listener
	passed   atomic.Int64 // bytes of the server, of the connection opened last
	limit    atomic.Int64 // after which the connection is cut; negative: never
	done     sync.WaitGroup
}

func startCutter(t *testing.T, to string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{t: t, to: to, listener: listener}
	c.limit.Store(-1)
	c.done.Go(func() {
		for {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			c.done.Go(func() { c.serve(down) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); c.done.Wait() })
	return c
}

func (c *cutter) addr() string { return c.listener.Addr().String() }

func (c *cutter) serve(down net.Conn) {
	defer down.Close()
	up, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer up.Close()
	c.passed.Store(0)
	c.done.Go(func() { _, _ = io.Copy(up, down); _ = up.Close() })
	from := io.Reader(up)
	if limit := c.limit.Load(); limit >= 0 {
		from = io.LimitReader(up, limit)
	}
	_, _ = io.Copy(io.MultiWriter(down, countingWriter{&c.passed}), from)
}

type countingWriter struct{ n *atomic.Int64 }

func (w countingWriter) Write(p []byte) (int, error) { w.n.Add(int64(len(p))); return len(p), nil }

// A connection that ends early, wherever it does, costs one error and nothing
// else.
func TestConnectionsThatAreCut(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{})
	repo := git.Repo(t, "fleet")
	key, public := identity(t, "")
	host := git.StartSSH(t, testkit.GitSSHOptions{Users: []ssh.PublicKey{public}})
	for scheme, to := range map[string]string{"http": strings.TrimPrefix(git.URL(), "http://"), "ssh": host.Addr()} {
		t.Run(scheme, func(t *testing.T) {
			tunnel := startCutter(t, to)
			options := gitsource.Options{URL: scheme + "://" + tunnel.addr() + "/fleet.git", Cache: t.TempDir()}
			if scheme == "ssh" {
				hosts := "[127.0.0.1]:" + strings.Split(tunnel.addr(), ":")[1] + " " + strings.SplitN(host.KnownHosts(), " ", 2)[1]
				options.Auth = secret(t, map[string]string{"identity": key, "known_hosts": hosts})
			}
			s := newSource(t, options)
			repo.Commit(t, "main", "first", files(noise("first")))
			good := fetch(t, s)
			for quarter := range int64(4) {
				name := fmt.Sprint("commit ", quarter)
				repo.Commit(t, "main", name, files(noise(name)))
				fetch(t, newSource(t, withoutCache(options))) // to know how long it is
				tunnel.limit.Store(max(tunnel.passed.Load()*quarter/4, 1))
				for range 2 {
					fetchError(t, s, "")
					if content(t, good, "README.md") != "hello" {
						t.Error("the last good commit is not readable")
					}
				}
				tunnel.limit.Store(-1)
				if good = fetch(t, s); content(t, good, "dir/a.yaml") != noise(name) {
					t.Error("the next fetch does not bring the commit")
				}
				if left := packsIn(t, options.Cache); len(left) != 1 {
					t.Errorf("the cache holds %v", left)
				}
			}
		})
	}
}

func withoutCache(o gitsource.Options) gitsource.Options {
	o.Cache = ""
	return o
}

// noise is a file that does not get smaller when it is packed.
func noise(seed string) string { return noiseOf(seed, 50_000) }

func noiseOf(seed string, size int) string {
	var b strings.Builder
	n := uint64(14695981039346656037)
	for _, c := range []byte(seed) {
		n = (n ^ uint64(c)) * 1099511628211
	}
	for b.Len() < size {
		n = n*6364136223846793005 + 1442695040888963407
		fmt.Fprintf(&b, "%x\n", n)
	}
	return b.String()
}

// recording answers what a git server answered, and can go wrong on the way.
type recording struct{ refs, pack []byte }

func record(t *testing.T, url string) *recording {
	t.Helper()
	r := &recording{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		request, err := http.NewRequest(q.Method, url+strings.TrimPrefix(q.URL.Path, "/fleet.git")+"?"+q.URL.RawQuery, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
		}
		request.Header = q.Header.Clone()
		request.Header.Del("Accept-Encoding")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		if q.Method == http.MethodGet {
			r.refs = answer
		} else {
			r.pack = answer
		}
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	fetch(t, newSource(t, gitsource.Options{URL: server.URL + "/fleet.git"}))
	return r
}

func (r *recording) serve(w http.ResponseWriter, q *http.Request, fault string) {
	answer := r.refs
	if q.Method == http.MethodPost {
		answer = r.pack
	}
	_, _ = io.Copy(io.Discard, q.Body)
	onPack := q.Method == http.MethodPost
	switch {
	case fault == "refs cut" && !onPack, strings.HasPrefix(fault, "pack cut") && onPack:
		quarter := int(fault[len(fault)-1] - '0')
		if !onPack {
			quarter = 2
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		_, _ = w.Write(answer[:len(answer)*quarter/4])
		panic(http.ErrAbortHandler)
	case fault == "500", fault == "500 on pack" && onPack:
		w.WriteHeader(http.StatusInternalServerError)
	case fault == "429":
		w.Header().Set("Retry-After", "42")
		w.WriteHeader(http.StatusTooManyRequests)
	case fault == "garbage" && onPack:
		_, _ = w.Write(append(bytes.Clone(answer[:40]), strings.Repeat("garbage ", 500)...))
	case fault == "noise" && onPack:
		broken := bytes.Clone(answer)
		broken[len(broken)/2] ^= 0xff
		_, _ = w.Write(broken)
	case fault == "stall" || fault == "stall on pack" && onPack:
		if onPack {
			_, _ = w.Write(answer[:len(answer)/2])
			w.(http.Flusher).Flush()
		}
		<-q.Context().Done()
	default:
		_, _ = w.Write(answer)
	}
}

// After a thousand things that went wrong, and a fetch that went well after
// each, nothing is left behind: no goroutine, no file, no memory.
func TestThousandFaults(t *testing.T) {
	git := testkit.StartGit(t, testkit.GitOptions{})
	repo := git.Repo(t, "fleet")
	var recordings []*recording
	for i := range 2 { // commits to go back and forth between
		repo.Commit(t, "main", fmt.Sprint(i), files(noiseOf(fmt.Sprint(i), 4000)))
		recordings = append(recordings, record(t, repo.URL()))
	}
	git.Stop()
	http.DefaultClient.CloseIdleConnections()
	var mu sync.Mutex
	var now *recording
	var fault string
	set := func(r *recording, f string) { mu.Lock(); now, fault = r, f; mu.Unlock() }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		r, f := now, fault
		mu.Unlock()
		r.serve(w, q, f)
	}))
	defer server.Close()
	faults := []string{
		"refs cut", "pack cut 0", "pack cut 1", "pack cut 2", "pack cut 3", "500", "500 on pack", "429", "garbage", "noise", "stall", "stall on pack",
	}
	for _, cache := range []string{"", t.TempDir()} {
		s := newSource(t, gitsource.Options{URL: server.URL + "/fleet.git", Cache: cache})
		said := map[string]string{}
		cycle := func(i int) {
			r, fault := recordings[i%2], faults[i/2%len(faults)]
			set(r, fault)
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if strings.HasPrefix(fault, "stall") {
				ctx, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
			}
			_, err := s.Fetch(ctx)
			cancel()
			if err == nil {
				t.Fatalf("%s: no error", fault)
			}
			key := fmt.Sprint(fault, i%2)
			if before := said[key]; before != "" && before != err.Error() {
				t.Errorf("%s: said %q, then %q", fault, before, err)
			}
			said[key] = err.Error()
			if wait := gitsource.RetryAfter(err); (wait == 42*time.Second) != (fault == "429") {
				t.Errorf("%s: retry after %s", fault, wait)
			}
			set(r, "")
			fetch(t, s)
		}
		for i := range 100 {
			cycle(i)
		}
		before := measure()
		for i := range 400 {
			cycle(i)
		}
		after := eventually(func(u usage) bool { return u.goroutines <= before.goroutines && u.files <= before.files })
		if after.goroutines > before.goroutines || after.files > before.files {
			t.Errorf("left behind: %+v, before %+v", after, before)
		}
		if grown := after.heap - before.heap; grown > 2<<20 {
			t.Errorf("the heap grew by %d KiB", grown>>10)
		}
	}
}

// usage is what a process holds.
type usage struct {
	goroutines, files int
	heap              int64
}

func measure() usage {
	runtime.GC()
	runtime.GC() // closes what the first found unused
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		files = nil // no such folder on other systems
	}
	return usage{runtime.NumGoroutine(), len(files), int64(m.HeapAlloc)}
}

// eventually measures until it is fine or time is over.
func eventually(fine func(usage) bool) usage {
	deadline := time.After(5 * time.Second)
	for {
		u := measure()
		if fine(u) {
			return u
		}
		select {
		case <-deadline:
			return u
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startProxy starts an http proxy that tunnels to the addresses it knows.
func startProxy(t *testing.T, known map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := known[r.Host]
		if r.Method != http.MethodConnect || !ok {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		up, err := net.Dial("tcp", at)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		join(up, down)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// join copies both ways until one side ends.
func join(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	wg.Wait()
}
