// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

// What has waited for long for the same object is reviewed side by side, and while
// later steps are.
func TestLateDecisionsAreReviewedSideBySide(t *testing.T) {
	const members = 8
	id := func(name string) inventory.ID {
		return inventory.ID{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "ns", Name: name}
	}
	namespace := inventory.ID{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: "ns"}
	steps := [][]inventory.Decision{{{ID: namespace, Action: inventory.Apply}}, nil, {{ID: id("last"), Action: inventory.Apply}}}
	for i := range members {
		steps[1] = append(steps[1], inventory.Decision{ID: id(fmt.Sprint("member-", i)), Action: inventory.Apply, After: []inventory.ID{namespace}})
	}
	var (
		seconds atomic.Int64
		inside  sync.WaitGroup // reviews of members once the namespace is there
		shut    = make(chan struct{})
	)
	inside.Add(members)
	c := &Cluster{opts: Options{InFlight: 4, Now: func() time.Time { return time.Unix(seconds.Load(), 0) }}.withDefaults()}
	c.throttle = newThrottle(4)
	review := func(step []inventory.Decision) []inventory.Decision {
		step = slices.Clone(step)
		if len(step) == 1 && len(step[0].After) > 0 {
			inside.Done()
			inside.Wait() // all of them at once, or never
			<-shut
			step[0].Action = inventory.Hold
		}
		return step
	}
	one := func(_ context.Context, d inventory.Decision) inventory.Outcome {
		if d.ID == id("last") {
			seconds.Store(10) // the namespace has taken long
			close(shut)
		}
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultCreated}
	}
	settle := func(_ context.Context, d inventory.Decision) inventory.Outcome {
		<-shut
		return inventory.Outcome{ID: d.ID, Result: inventory.ResultUnchanged}
	}
	held := 0
	for _, o := range c.batch(steps, review).run(t.Context(), one, settle) {
		if o.Result == inventory.ResultHeld {
			held++
		}
	}
	if held != members {
		t.Errorf("%d members were held, want all %d", held, members)
	}
}
