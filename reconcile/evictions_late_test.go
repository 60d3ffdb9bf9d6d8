// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lamplighter.dev/reconcile/rollout"
)

// Pods whose evictions a webhook keeps waiting keep no others from their turn for good.
func TestEvictionsThatHangDoNotStarveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, many, evictionsInFlight+4)
		h := &hanging{waiting: w}
		h.reconciler = NewReconciler(Options{Instance: us, Cluster: h, Store: h, Now: h.now})
		last := w.podNames(evictionsInFlight + 4)[evictionsInFlight:]
		for end := h.now().Add(20 * time.Minute); h.now().Before(end); {
			report := h.pass(t)
			<-time.After(max(time.Second/2, report.Next.Sub(h.now())))
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, name := range last {
			if !slices.Contains(h.sent, name) {
				t.Errorf("%s was never sent, of %d that were", name, len(h.sent))
			}
		}
	})
}

// hanging is a world in which the evictions of the first pods get no answer.
type hanging struct{ *waiting }

func (h *hanging) Evict(ctx context.Context, d rollout.Decision) rollout.Attempt {
	a := rollout.Attempt{Decision: d, Result: rollout.Errored}
	if ctx.Err() != nil {
		a.Err = context.Cause(ctx)
		return a
	}
	h.mu.Lock()
	h.sent = append(h.sent, d.Pod.Name.Name)
	h.mu.Unlock()
	if d.Pod.Name.Name >= h.podNames(evictionsInFlight + 1)[evictionsInFlight] {
		a.Result = rollout.Sent
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second+50*time.Millisecond) // recording took a moment
	defer cancel()
	<-ctx.Done()
	a.Err = context.Cause(ctx)
	return a
}

// What has become of evictions is told in the order of their nodes, whoever was answered
// first.
func TestAnswersAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, many, evictionsInFlight+4)
		h := &hanging{waiting: w}
		h.reconciler = NewReconciler(Options{Instance: us, Cluster: h, Store: h, Now: h.now, AwaitEvictions: true})
		var nodes []string
		for _, a := range h.pass(t).Attempts {
			nodes = append(nodes, a.Decision.Node)
		}
		if len(nodes) != evictionsInFlight+4 || !slices.IsSorted(nodes) {
			t.Errorf("got answers about %v, want all, in order", nodes)
		}
	})
}

// An eviction is not sent so long after it was decided that what becomes of it is known
// too late.
func TestEvictionThatHasWaitedForLongIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, many, evictionsInFlight+1)
		w.pass(t)
		<-time.After(45 * time.Second) // a pass takes long, or none is possible
		w.answers <- rollout.Sent
		synctest.Wait()
		w.wantSent(t, w.podNames(evictionsInFlight)...)
	})
}

// A visit whose eviction the API server has taken late keeps its slot until a watch that
// is a little behind has told of it.
func TestEvictionThatWasTakenLateKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, governed, 2)
		w.pass(t)
		<-time.After(time.Minute - time.Second)
		w.answers <- rollout.Sent
		synctest.Wait()
		for range 5 {
			<-time.After(lookAgain)
			w.pass(t)
		}
		w.wantSent(t, "pod-00")
		if l := w.stored.Ledger; len(l.Visits) != 1 || l.Visits[0].Node != "n00" {
			t.Errorf("visits %+v, want that of n00", l.Visits)
		}
	})
}

// Passes may follow each other closely. What comes to nothing is not sent by each of them,
// and the next pass that may send it is due by itself.
func TestEvictionThatFailsIsNotRepeatedByEachPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, governed, 2)
		w.pass(t)
		w.answers <- rollout.Gone
		synctest.Wait()
		for range 10 {
			<-time.After(50 * time.Millisecond)
			report := w.pass(t)
			w.wantSent(t, "pod-00")
			if in := report.Next.Sub(w.now()); in <= 0 || in > lookAgain {
				t.Errorf("next look %s later, want it within %s", in, lookAgain)
			}
		}
		<-time.After(lookAgain)
		w.pass(t)
		w.wantSent(t, "pod-00", "pod-00")
	})
}

// One that was taken counts for a minute from when that was learnt, unless the pod is seen
// to be deleted. Then a pass is due that looks again.
func TestEvictionThatWasTakenCountsUntilThePodIsSeenToBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, governed, 1)
		w.pass(t)
		<-time.After(10 * time.Second) // a webhook is slow
		w.answers <- rollout.Sent
		synctest.Wait()
		w.pass(t)
		report := w.pass(t)
		if uid := w.pods[0].UID; !report.Observation.UnderWay[uid] {
			t.Error("the pod is not under way")
		}
		w.pods[0].Deleting = true
		if report = w.pass(t); len(report.Observation.UnderWay) > 0 {
			t.Errorf("under way: %v, want none: the pod is seen to be deleted", report.Observation.UnderWay)
		}
		w.pods[0].Deleting = false // the API server was set back
		<-time.After(longestLag - lookAgain)
		if report = w.pass(t); report.Next.Sub(w.now()) != lookAgain {
			t.Errorf("next look %s later, want it in %s: when the eviction counts no more", report.Next.Sub(w.now()), lookAgain)
		}
		<-time.After(lookAgain)
		if report = w.pass(t); len(report.Observation.UnderWay) > 0 {
			t.Errorf("under way: %v, want none any more", report.Observation.UnderWay)
		}
	})
}
