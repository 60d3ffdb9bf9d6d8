// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"

	"lamplighter.dev/inventory"
)

const fast, sluggish = 10 * time.Millisecond, 100 * time.Millisecond

func TestWidthFollowsTheAPIServer(t *testing.T) {
	ok, unused, slowly := answer{took: fast, full: true}, answer{took: fast}, answer{took: sluggish, full: true}
	overload := answer{overload: true, full: true}
	for _, tt := range []struct {
		name   string
		start  int
		rounds []answer // each as many as the bound
		want   int
	}{
		{"doubles", 64, []answer{ok}, 32},
		{"up to the most", 64, []answer{ok, ok, ok}, 64},
		{"grows by one a round once answers were slow", 64, []answer{ok, slowly, ok, ok, ok, ok}, 41},
		{"not beyond the most", 16, []answer{ok, ok}, 16},
		{"not if it is not used", 64, []answer{unused, unused, unused}, 16},
		{"halves when there is too much to do", 64, []answer{ok, overload}, 16},
		{"once a round", 64, []answer{overload, overload, overload}, 2},
		{"down to one", 64, []answer{overload, overload, overload, overload, overload, overload}, 1},
		{"and grows again", 64, []answer{overload, ok, ok, ok, ok}, 11},
		{"not while answers are slow, which a few of them tell", 64, []answer{ok, slowly, slowly, slowly}, 38},
		{"unless they always are", 64, []answer{slowly, slowly}, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newThrottle(tt.start).width
			for _, a := range tt.rounds {
				for range int(w.bound) {
					w = w.after(a)
				}
			}
			if got := int(w.bound); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// Whatever the API server answers, something may be sent and never more than the
// most, and it finds back to the most when all is well.
func TestWidthStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 100).Draw(t, "most")
		w := newThrottle(most).width
		for range rapid.IntRange(0, 300).Draw(t, "answers") {
			w = w.after(answer{
				overload: rapid.Bool().Draw(t, "overload"), full: rapid.Bool().Draw(t, "full"),
				took: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "took")),
			})
			if w.bound < 1 || w.bound > float64(most) {
				t.Fatalf("bound %f, want 1 to %d", w.bound, most)
			}
		}
		for range 4*forgotten + most*most {
			w = w.after(answer{took: fast, full: true})
		}
		if int(w.bound) != most {
			t.Errorf("bound %f after a long time of good answers, want %d", w.bound, most)
		}
	})
}

func TestThrottleLetsInAsManyAsItsWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := newThrottle(3)
		var inside, done atomic.Int32
		for range 10 {
			go func() {
				if throttle.enter(t.Context()) != nil {
					return
				}
				inside.Add(1)
				<-time.After(time.Second)
				inside.Add(-1)
				throttle.leave()
				done.Add(1)
			}()
		}
		for range 3 {
			synctest.Wait()
			if got := inside.Load(); got != 3 {
				t.Errorf("%d are inside, want 3", got)
			}
			<-time.After(time.Second)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got := done.Load(); got != 10 {
			t.Errorf("%d are done, want all 10", got)
		}
	})
}

// Who gives up while he waits takes no place away.
func TestThrottleForgetsWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := newThrottle(1)
		if err := throttle.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() { gaveUp <- throttle.enter(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-gaveUp; err == nil {
			t.Fatal("it got in")
		}
		throttle.leave()
		if err := throttle.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// The API server's word to wait is heard: the width halves, and the request comes
// again no sooner than was asked.
func TestOverloadNarrowsTheThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := newThrottle(64)
		server := observed{roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}, nil
		}), throttle, time.Now, time.Minute}
		for _, tt := range []struct {
			method, path string
			want         int
		}{
			{http.MethodGet, "/api/v1/namespaces/ns/configmaps/a", 16},
			{http.MethodPost, "/api/v1/namespaces/ns/pods/a/eviction", 16}, // a disruption budget speaks so too
			{http.MethodPatch, "/api/v1/namespaces/ns/configmaps/a", 8},
		} {
			r, err := http.NewRequestWithContext(t.Context(), tt.method, "https://server"+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := server.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if got := int(throttle.width.bound); got != tt.want {
				t.Errorf("after a %s: %d, want %d", tt.method, got, tt.want)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWaitThatIsAskedForIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{opts: Options{}.withDefaults()}
		var at []time.Duration
		start := time.Now()
		err := c.try(t.Context(), func(context.Context) error {
			at = append(at, time.Since(start))
			if len(at) == 1 {
				return tooMany(12)
			}
			return nil
		})
		if err != nil || len(at) != 2 || at[1] < 12*time.Second || at[1] > 20*time.Second {
			t.Errorf("got %v at %v, want a second try after 12 s", err, at)
		}
	})
}

// A wait that is longer than a request may take is not cut short: the request is not
// sent again, and the outcome says how long to leave the API server alone.
func TestLongWaitThatIsAskedForIsLeftToTheNextPass(t *testing.T) {
	for name, answers := range map[string]func(*http.Request) (*http.Response, error){
		"header": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"90"}}, Body: http.NoBody}, nil
		},
		"body": func(*http.Request) (*http.Response, error) {
			return nil, tooMany(90)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Cluster{opts: Options{}.withDefaults()}
				server := observed{roundTrip(answers), newThrottle(1), time.Now, c.opts.RequestTimeout}
				sent, start := 0, time.Now()
				err := c.try(t.Context(), func(ctx context.Context) error {
					sent++
					r, err := http.NewRequestWithContext(ctx, http.MethodPatch, "https://server/api/v1/namespaces/ns/configmaps/a", nil)
					if err != nil {
						return err
					}
					response, err := server.RoundTrip(r)
					if err == nil {
						return response.Body.Close()
					}
					return err
				})
				if err == nil || sent != 1 || time.Since(start) > 0 {
					t.Errorf("sent %d times within %s, %v; want once, and an error", sent, time.Since(start), err)
				}
				if o := failure(inventory.ID{}, err); o.RetryAfter != 90*time.Second {
					t.Errorf("try again after %s, want 90 s", o.RetryAfter)
				}
			})
		})
	}
}

func tooMany(seconds int) error { return apierrors.NewTooManyRequests("later", seconds) }
