// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
)

// An object whose apply or deletion failed is tried again after firstRetry,
// then twice as long each time, up to lastRetry, and not before the API server has
// asked for. A new commit that changes the
// object is tried at once.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// Retry is when an object that is left alone is tried again, and why it is.
type Retry struct {
	Reason  inventory.Reason // Failing or Fighting
	At      time.Time
	Message string
}

// backoff remembers which objects failed.
type backoff map[inventory.ID]attempt

type attempt struct {
	Retry
	content string // hash of what was sent; "" for a deletion
	wait    time.Duration
}

// note takes the outcomes of a pass. What the plan does not speak of any more
// is forgotten.
func (b backoff) note(plan inventory.Plan, outcomes []inventory.Outcome, now time.Time) {
	if len(b) == 0 && len(outcomes) == 0 {
		return
	}
	planned, tried := map[inventory.ID]bool{}, map[inventory.ID]*unstructured.Unstructured{}
	for d := range plan.All() {
		planned[d.ID] = true
		if d.Action.Acts() {
			tried[d.ID] = d.Object
		}
	}
	maps.DeleteFunc(b, func(id inventory.ID, _ attempt) bool { return !planned[id] })
	for _, o := range outcomes {
		object, wasTried := tried[o.ID]
		if !wasTried {
			continue
		}
		switch o.Result {
		case inventory.ResultFailed, inventory.ResultRefused, inventory.ResultConflict:
		case inventory.ResultSkipped, inventory.ResultHeld:
			continue
		default:
			delete(b, o.ID)
			continue
		}
		if o.Err == nil {
			continue
		}
		content := contentOf(object)
		last := b[o.ID]
		wait := firstRetry
		if last.content == content && last.wait > 0 {
			wait = min(2*last.wait, lastRetry)
		}
		at := now.Add(max(wait, o.RetryAfter))
		b[o.ID] = attempt{Retry: Retry{Reason: inventory.Failing, At: at, Message: o.Err.Error()}, content: content, wait: wait}
	}
}

// due answers which objects are not tried again yet. What has another content
// than the one that failed is.
func (b backoff) due(changes []inventory.Change, now time.Time) map[inventory.ID]Retry {
	contents := map[inventory.ID]string{}
	for _, c := range changes {
		if _, failed := b[c.ID]; failed {
			contents[c.ID] = contentOf(c.Object)
		}
	}
	waiting := map[inventory.ID]Retry{}
	for id, a := range b {
		if contents[id] == a.content && now.Before(a.At) {
			waiting[id] = a.Retry
		}
	}
	return waiting
}

// contentOf is a digest of what is sent; "" for nothing. What has no digest
// cannot be sent either.
func contentOf(obj *unstructured.Unstructured) string {
	if obj == nil {
		return ""
	}
	hash, err := inventory.ContentHash(obj)
	if err != nil {
		return ""
	}
	return hash
}

// next is when the first object that waits is tried again; zero if none does.
func (b backoff) next(now time.Time) time.Time {
	var first time.Time
	for _, a := range b {
		first = earliest(now, first, a.At)
	}
	return first
}
