// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// evictionsInFlight is how many evictions are sent at once.
const evictionsInFlight = 16

// longestLag is for how long a watch may be behind. After that the API server may have
// been set back.
const longestLag = time.Minute

var (
	errWindowShut = errors.New("the window has shut")
	errTooLate    = errors.New("not sent: it has waited for its turn for too long")
)

// evictions are sent side by side, and no pass has to wait for them: one that a webhook
// keeps waiting holds up nothing else. What is not sent yet waits for its turn, and gives
// way to what the next pass decides.
type evictions struct {
	cluster Cluster
	now     func() time.Time

	// taken are the pods of those that the API server has taken, and when that was learnt.
	// It deletes such a pod: who still sees it without a deletion, as it was or with the
	// mark that it is to be evicted, sees it too late, and need not send another.
	taken map[types.UID]time.Time

	// failed are the pods of those that the API server has not taken. The watches need not
	// tell what comes of them: a refusal leaves a slot for another node, and a pod that was
	// not the one decided about may have moved only in what nobody looks at.
	failed recently[types.UID]
	lapses time.Time // when the first of taken, that is not seen to be deleted, counts no more

	mu       sync.Mutex
	waiting  []dueDecision
	sending  map[types.UID]bool
	answered []rollout.Attempt
	senders  int
	work     sync.WaitGroup
}

// A dueDecision may be carried out until its window shuts; zero is without end.
type dueDecision struct {
	rollout.Decision
	shuts time.Time
}

func newEvictions(cluster Cluster, now func() time.Time) *evictions {
	return &evictions{cluster: cluster, now: now, taken: map[types.UID]time.Time{}, failed: newRecently[types.UID](lookAgain), sending: map[types.UID]bool{}}
}

// look says what has become of evictions since the last look, as learn does,
// and of which pods there are more: sent without an answer, taken though the pod is not
// seen to be deleted, or waiting for their turn.
func (e *evictions) look(pods []*health.Pod) (answered []rollout.Attempt, underWay, queued map[types.UID]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	answered = e.learnLocked()
	now := e.now()
	maps.DeleteFunc(e.taken, func(_ types.UID, at time.Time) bool { return now.Sub(at).Abs() >= longestLag })
	underWay, queued = maps.Clone(e.sending), map[types.UID]bool{}
	e.lapses = time.Time{}
	for i := 0; i < len(pods) && len(e.taken) > 0; i++ {
		if at, taken := e.taken[pods[i].UID]; taken && !pods[i].Deleting {
			underWay[pods[i].UID] = true
			e.lapses = earliest(now, e.lapses, at.Add(longestLag))
		}
	}
	for _, d := range e.waiting {
		underWay[d.Pod.UID], queued[d.Pod.UID] = true, true
	}
	return answered, underWay, queued
}

// learn takes what has become of evictions since the last time, by policy and node.
func (e *evictions) learn() []rollout.Attempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.learnLocked()
}

func (e *evictions) learnLocked() (answered []rollout.Attempt) {
	answered, e.answered = e.answered, nil
	slices.SortFunc(answered, func(a, b rollout.Attempt) int {
		return cmp.Or(cmp.Compare(a.Decision.Policy, b.Decision.Policy), cmp.Compare(a.Decision.Node, b.Decision.Node))
	})
	now := e.now()
	for _, a := range answered {
		if a.Result == rollout.Sent {
			e.taken[a.Decision.Pod.UID] = now
		} else {
			e.failed.note(a.Decision.Pod.UID, now)
		}
	}
	return answered
}

// begin sends what is due, what waits already before the rest, and forgets what still
// waits and is not due any more. Of what the plan has taken to be under way nothing is
// sent a second time: what has become of it meanwhile is for the next plan. Nor is what
// has just failed. Nothing is sent after the end of ctx.
func (e *evictions) begin(ctx context.Context, due []dueDecision, underWay map[types.UID]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	turn := map[types.UID]int{} // the first one's is the least; that of others is 0
	for i, d := range e.waiting {
		turn[d.Pod.UID] = i - len(e.waiting)
	}
	e.waiting = slices.DeleteFunc(due, func(d dueDecision) bool {
		_, taken := e.taken[d.Pod.UID]
		return taken || (underWay[d.Pod.UID] && turn[d.Pod.UID] == 0) || e.failed.tried(d.Pod.UID, now)
	})
	slices.SortStableFunc(e.waiting, func(a, b dueDecision) int { return turn[a.Pod.UID] - turn[b.Pod.UID] })
	for range min(len(e.waiting), evictionsInFlight-e.senders) {
		e.senders++
		e.work.Go(func() { e.sendAll(ctx) })
	}
}

// sendAll sends one after another until none waits.
func (e *evictions) sendAll(ctx context.Context) {
	for {
		d, waits := e.take()
		if !waits {
			return
		}
		attempt := e.sendOne(ctx, d)
		e.mu.Lock()
		delete(e.sending, d.Pod.UID)
		e.answered = append(e.answered, attempt)
		e.mu.Unlock()
	}
}

// take is what is to be sent next. Without any there is one sender less.
func (e *evictions) take() (d dueDecision, waits bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 {
		e.senders--
		return d, false
	}
	d, e.waiting = e.waiting[0], e.waiting[1:]
	e.sending[d.Pod.UID] = true
	return d, true
}

func (e *evictions) sendOne(ctx context.Context, d dueDecision) rollout.Attempt {
	if !e.now().Before(d.Pod.SendBefore) {
		return rollout.Attempt{Decision: d.Decision, Result: rollout.Errored, Err: errTooLate}
	}
	if !d.shuts.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.shuts.Sub(e.now()), errWindowShut)
		defer cancel()
	}
	return e.cluster.Evict(ctx, d.Decision)
}

// next is when the next pass is due because of them: soon while it is not known of some
// what becomes of them, or not looked at.
func (e *evictions) next(now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := earliest(now, e.failed.next(now), e.lapses)
	if len(e.waiting)+len(e.sending)+len(e.answered) > 0 {
		next = earliest(now, next, now.Add(lookAgain))
	}
	return next
}

// wait blocks until none is under way.
func (e *evictions) wait() { e.work.Wait() }
