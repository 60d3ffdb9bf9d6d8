// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// firstWidth is how many objects are worked on at once before anything is known
// of how the API server bears it.
const firstWidth = 16

// throttle bounds how many objects are worked on at once. The bound follows what
// the API server answers: see width.
type throttle struct {
	mu      sync.Mutex
	width   width
	active  int
	waiting []chan struct{} // in order
}

func newThrottle(most int) *throttle {
	return &throttle{width: width{bound: float64(min(firstWidth, most)), most: float64(most)}}
}

// enter waits for a place, or for the end of ctx.
func (t *throttle) enter(ctx context.Context) error {
	t.mu.Lock()
	if t.active < int(t.width.bound) && len(t.waiting) == 0 {
		t.active++
		t.mu.Unlock()
		return nil
	}
	place := make(chan struct{})
	t.waiting = append(t.waiting, place)
	t.mu.Unlock()
	select {
	case <-place:
		return nil
	case <-ctx.Done():
		t.giveUp(place)
		return context.Cause(ctx)
	}
}

// giveUp takes a waiter out, or gives its place to the next if it has just got
// one.
func (t *throttle) giveUp(place chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.waiting {
		if w == place {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			return
		}
	}
	t.active--
	t.admit()
}

func (t *throttle) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active--
	t.admit()
}

// admit gives free places to those who wait.
func (t *throttle) admit() {
	for len(t.waiting) > 0 && t.active < int(t.width.bound) {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		t.active++
	}
}

// saw takes what the API server answered, and after how long.
func (t *throttle) saw(a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.full = t.active >= int(t.width.bound)
	t.width = t.width.after(a)
	t.admit()
}

// answer is one request's.
type answer struct {
	overload bool // too many requests, or not available
	took     time.Duration
	full     bool // as many were under way as may be
}

// width is how many objects may be worked on at once, and what it was learnt
// from. It grows for each round of answers that came about as fast as the fastest
// ones, and only if it was used: it doubles until a round is slower, and from then
// on there is one more. It halves, once for each round, when the API server says
// that it has too much to do. It is never less than one nor more than most.
type width struct {
	bound, most float64
	met         bool          // the API server has been seen to have enough to do
	fastest     time.Duration // drifts to the usual, since what was fast once may never be again
	usual       time.Duration // a moving average
	spared      int           // answers until it may halve again
}

const (
	// slow is how many times the fastest answer's time an answer may take on
	// average for more requests to make sense: beyond that they only queue.
	slow = 4
	// remembered is how many answers the average is of, about.
	remembered = 16
	// forgotten is after how many answers, about, the fastest one says nothing.
	forgotten = 4096
)

func (w width) after(a answer) width {
	w.spared = max(0, w.spared-1)
	if a.overload {
		w.met = true
		if w.spared == 0 {
			w.spared = int(w.bound)
			w.bound = max(1, w.bound/2)
		}
		return w
	}
	w.fastest += max(0, w.usual-w.fastest) / forgotten
	if w.fastest == 0 || a.took < w.fastest {
		w.fastest = a.took
	}
	if w.usual == 0 {
		w.usual = a.took
	}
	w.usual += (a.took - w.usual) / remembered
	w.met = w.met || w.usual > slow*w.fastest
	switch {
	case !a.full || w.usual > slow*w.fastest:
	case w.met:
		w.bound = min(w.most, w.bound+1/w.bound)
	default:
		w.bound = min(w.most, w.bound+1)
	}
	return w
}

// observed is a connection whose answers the throttle sees: those to what is sent
// or dry-run, which all take about the same time. An answer that asks a request to
// wait for longer than it may take is an error: what sends it would wait in vain.
type observed struct {
	next     http.RoundTripper
	throttle *throttle
	now      func() time.Time
	timeout  time.Duration // of a request
}

func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.watch(r)
	if err != nil {
		return nil, err
	}
	seconds, noNumber := strconv.Atoi(response.Header.Get("Retry-After"))
	asked := time.Duration(seconds) * time.Second
	_, bounded := r.Context().Deadline() // else it is a watch, which waits
	if noNumber != nil || asked <= o.timeout || !bounded || strings.HasSuffix(r.URL.Path, "/eviction") {
		return response, nil
	}
	return nil, errors.Join(busyError{asked}, response.Body.Close())
}

func (o observed) watch(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || strings.HasSuffix(r.URL.Path, "/status") {
		return o.next.RoundTrip(r)
	}
	start := o.now()
	response, err := o.next.RoundTrip(r)
	if err == nil {
		overload := response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable
		o.throttle.saw(answer{overload: overload, took: o.now().Sub(start)})
	}
	return response, err
}
