// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server answers as one whose clock is behind this machine's.
type server struct {
	behind time.Duration
	down   bool
	noDate bool
	asked  atomic.Int64
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	if s.down {
		return nil, http.ErrServerClosed
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if !s.noDate {
		w.Header().Set("Date", time.Now().Add(-s.behind).UTC().Format(http.TimeFormat))
	}
	w.WriteString("{}")
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// asked is a clock whose API server is s.
func (s *server) clock(t *testing.T) (*Clock, kubernetes.Interface) {
	t.Helper()
	clock := NewClock(time.Now)
	client, err := kubernetes.NewForConfig(clock.Through(&rest.Config{Host: "http://cluster.test", Transport: s}))
	if err != nil {
		t.Fatal(err)
	}
	return clock, client
}

func TestConfirmAsksOnlyWhenNothingWasAskedOfLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		clock, client := s.clock(t)
		asking := clock.Asking(client)
		expect := func(when string, want int64) {
			t.Helper()
			if problem := asking.Confirm(t.Context()); problem != "" {
				t.Errorf("%s: %s", when, problem)
			}
			if got := s.asked.Load(); got != want {
				t.Errorf("%s: %d questions, want %d", when, got, want)
			}
		}
		expect("first", 1)
		expect("at once", 1)
		<-time.After(youngFor)
		expect("while it is young", 1)
		<-time.After(time.Second)
		expect("later", 2)
		<-time.After(youngFor)
		if _, err := client.Discovery().ServerVersion(); err != nil {
			t.Fatal(err)
		}
		<-time.After(youngFor)
		expect("after another question", 3)
	})
}

func TestClockFailsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		server *server
		want   string
	}{
		"no answer": {&server{down: true}, "did not answer"},
		"no date":   {&server{noDate: true}, "without a Date"},
		"skew":      {&server{behind: time.Minute}, "ahead of the API server's"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock, client := test.server.clock(t)
				if got := clock.Asking(client).Confirm(t.Context()); !strings.Contains(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// Without the time nothing is done, and the API server is not asked by every
// pass; any other answer is as good.
func TestSilentAPIServerIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{noDate: true}
		clock, client := s.clock(t)
		asking := clock.Asking(client)
		for _, step := range []struct {
			after   time.Duration
			asked   int64
			trusted bool
		}{{0, 1, false}, {askAgain - 1, 1, false}, {1, 2, false}, {time.Second, 2, false}} {
			<-time.After(step.after)
			if problem := asking.Confirm(t.Context()); (problem == "") != step.trusted || s.asked.Load() != step.asked {
				t.Errorf("%+v: %q after %d questions", step, problem, s.asked.Load())
			}
		}
		s.noDate = false
		if _, err := client.Discovery().ServerVersion(); err != nil {
			t.Fatal(err)
		}
		if problem := asking.Confirm(t.Context()); problem != "" || s.asked.Load() != 3 {
			t.Errorf("once something was heard: %q after %d questions", problem, s.asked.Load())
		}
	})
}

func TestClockTellsWhenItsProblemChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		clock, client := s.clock(t)
		var skews []time.Duration
		clock.skewed = func(skew time.Duration) { skews = append(skews, skew) }
		told := func() bool {
			select {
			case <-clock.changed:
				return true
			default:
				return false
			}
		}
		for _, step := range []struct {
			behind  time.Duration
			told    bool
			problem bool
		}{{0, false, false}, {time.Minute, true, true}, {time.Minute, false, true}, {0, true, false}, {0, false, false}} {
			s.behind = step.behind
			if _, err := client.Discovery().ServerVersion(); err != nil {
				t.Fatal(err)
			}
			if told() != step.told || (clock.Problem() != "") != step.problem {
				t.Errorf("%+v: problem %q", step, clock.Problem())
			}
		}
		if len(skews) != 5 || (skews[1]-time.Minute).Abs() > time.Second {
			t.Errorf("skews %v", skews)
		}
	})
}

// A watch's answer is read for minutes, and one out of a cache is of another
// time.
func TestWatchesAndCachesTellNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewClock(time.Now)
		for url, age := range map[string]string{"http://cluster.test/api/v1/pods?watch=true": "", "http://cluster.test/version": "60"} {
			transport := comparing{clock, roundTrip(func(*http.Request) (*http.Response, error) {
				header := http.Header{"Date": {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}
				if age != "" {
					header.Set("Age", age)
				}
				return &http.Response{Header: header, Body: http.NoBody}, nil
			})}
			req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if problem, known := clock.confirmed(); known {
				t.Errorf("%s, Age %q: it was used: %q", url, age, problem)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
