// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// Recording the intent and applying take time, in which the window may shut.
func TestWhatDisturbsPodsIsNotSentAfterTheWindowHasShut(t *testing.T) {
	ds := daemonSetID(agents)
	for _, test := range []struct {
		name  string
		slow  func(*slow)
		fleet func(*testing.T) *Fleet
	}{
		{"template", func(s *slow) { s.lateAfter = "save" }, func(t *testing.T) *Fleet { return fleetOf(t, governed) }},
		{"template in a later step", func(s *slow) { s.lateAfter = "first step" }, func(t *testing.T) *Fleet {
			fleet := fleetOf(t, governed)
			fleet.Objects = append(fleet.Objects, object(configMap("a")), object(configMap("b")))
			for _, o := range fleet.Objects {
				if o.GetName() == "cni" {
					o.SetAnnotations(map[string]string{"config.kubernetes.io/depends-on": "/namespaces/agents/ConfigMap/a"})
				}
			}
			return fleet
		}},
		{"deletion", func(s *slow) { s.lateAfter = "apply" }, func(t *testing.T) *Fleet {
			fleet := fleetOf(t, governed)
			fleet.Objects = []*unstructured.Unstructured{object(configMap("a")), object(configMap("b"))}
			return fleet
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &slow{world: &world{objects: map[string]string{"cni": "old"}}, now: open}
			s.stored.Inventory = inventory.NewSet(ds, configMap("a"), configMap("b"))
			s.stored.Ledger = s.stored.Ledger.Govern(fleetOf(t, governed).Policies)
			test.slow(s)
			r := NewReconciler(Options{Instance: us, Cluster: s, Store: s, Now: func() time.Time { return s.now }})
			report, err := r.Pass(t.Context(), Source{Fleet: test.fleet(t)})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.objects["cni"]; got != "old" {
				t.Errorf("the DaemonSet was changed to %q after its window had shut", got)
			}
			if !s.stored.Inventory.Contains(ds) {
				t.Error("the DaemonSet left the inventory")
			}
			if report.Next.IsZero() || report.Next.After(s.now) {
				t.Errorf("next look at %s, want one at once: the window has shut", report.Next)
			}
		})
	}
}

// slow is a world on which one call takes until the window has shut.
type slow struct {
	*world
	now       time.Time
	lateAfter string
}

func (s *slow) pass(call string) {
	if call == s.lateAfter {
		s.now = opens.Add(time.Hour)
	}
}

func (s *slow) Inspect(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	changes, err := s.world.Inspect(ctx, objects)
	for i := range changes {
		changes[i].TemplateChanged = changes[i].ID.GroupKind == daemonSetKind
	}
	return changes, err
}

func (s *slow) Save(ctx context.Context, state State) error {
	defer s.pass("save")
	return s.world.Save(ctx, state)
}

func (s *slow) Apply(ctx context.Context, steps [][]inventory.Decision, review func([]inventory.Decision) []inventory.Decision) []inventory.Outcome {
	defer s.pass("apply")
	return s.world.Apply(ctx, steps, func(step []inventory.Decision) []inventory.Decision {
		defer s.pass("first step")
		return review(step)
	})
}

// Comparing takes time. What the watches tell meanwhile counts.
func TestPodsAreLookedAtLast(t *testing.T) {
	m := &moving{world: &world{objects: map[string]string{}}}
	r := NewReconciler(Options{Instance: us, Cluster: m, Store: m, Now: func() time.Time { return shut }})
	obs, err := r.Observe(t.Context(), source(map[string]string{"a": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(obs.Nodes) != 1 {
		t.Error("the node that was added meanwhile was not seen")
	}
}

// moving is a world that gets a node while its objects are compared.
type moving struct {
	*world
	nodes []health.Node
}

func (m *moving) Inspect(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	m.nodes = []health.Node{{Name: "n1", Ready: true}}
	return m.world.Inspect(ctx, objects)
}

func (m *moving) Snapshot() ([]health.Node, []health.DaemonSet, []*health.Pod) {
	return m.nodes, nil, nil
}

// A refusal frees a slot and a pod that has moved is another one by now, and
// nothing else may happen that would tell.
func TestEvictionThatWasNotSentIsLookedAtSoon(t *testing.T) {
	for result, soon := range map[rollout.AttemptResult]bool{rollout.Refused: true, rollout.Gone: true, rollout.Sent: false} {
		e := &evicting{world: &world{objects: map[string]string{"cni": ""}}, result: result, obs: observe(t, governed)}
		e.obs.Pods[0].Hash = "older"
		e.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
		r := NewReconciler(Options{Instance: us, Cluster: e, Store: e, AwaitEvictions: true, Now: func() time.Time { return open }})
		report, err := r.Pass(t.Context(), Source{Fleet: e.obs.Fleet})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Attempts) != 1 {
			t.Fatalf("%d evictions, want 1", len(report.Attempts))
		}
		if got := !report.Next.IsZero() && report.Next.Sub(open) <= lookAgain; got != soon {
			t.Errorf("%s: next look %s later, want it within %s: %t", result, report.Next.Sub(open), lookAgain, soon)
		}
	}
}

// The API server marks a pod when it takes an eviction of it, and then deletes it. A watch
// that is behind still tells of the pod as it was, or of the mark alone.
func TestEvictionThatWasTakenIsNotSentAgain(t *testing.T) {
	e := &evicting{world: &world{objects: map[string]string{"cni": ""}}, result: rollout.Sent, obs: observe(t, governed)}
	pod := *e.obs.Pods[0]
	pod.Hash, pod.ResourceVersion = "older", "7"
	e.obs.Pods[0] = &pod
	e.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
	now := open
	r := NewReconciler(Options{Instance: us, Cluster: e, Store: e, AwaitEvictions: true, Now: func() time.Time { return now }})
	for _, step := range []struct {
		name   string
		change func()
		want   int
	}{
		{"outdated", func() {}, 1},
		{"not told yet", func() { now = now.Add(time.Second) }, 0},
		{"still not told", func() { now = now.Add(time.Second) }, 0},
		{"marked, and its deletion not told", func() { pod.ResourceVersion = "8" }, 0},
		{"as before after a long time, as after a restore of the API server", func() { now = now.Add(longestLag) }, 1},
	} {
		step.change()
		report, err := r.Pass(t.Context(), Source{Fleet: e.obs.Fleet})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(report.Attempts); got != step.want {
			t.Errorf("%s: %d evictions, want %d", step.name, got, step.want)
		}
	}
}

// What the API server says to an eviction that fails is on record, for those who look.
func TestEvictionThatFailsIsOnRecord(t *testing.T) {
	e := &evicting{
		world: &world{objects: map[string]string{"cni": ""}}, obs: observe(t, governed),
		result: rollout.Errored, err: errors.New("admission webhook \"guard\" denied the request:\nnot tonight"),
	}
	e.obs.Pods[0].Hash = "older"
	e.stored.Ledger.Governed = map[string]rollout.Governance{agents.String(): {Policy: "network", Proven: "live"}}
	now := open
	r := NewReconciler(Options{Instance: us, Cluster: e, Store: e, AwaitEvictions: true, Now: func() time.Time { return now }})
	const want = `admission webhook "guard" denied the request: not tonight`
	for range 2 {
		report, err := r.Pass(t.Context(), Source{Fleet: e.obs.Fleet})
		if err != nil {
			t.Fatal(err)
		}
		if l := e.stored.Ledger; len(report.Attempts) != 1 || len(l.Visits) != 1 || l.Visits[0].Steps[0].Problem != want {
			t.Fatalf("%d evictions, visits %+v; want one, and %q on record", len(report.Attempts), l.Visits, want)
		}
		now = now.Add(time.Second)
	}
	report, err := r.Pass(t.Context(), Source{Fleet: e.obs.Fleet})
	if d := report.Plan.Rollout.Decisions[0]; err != nil || d.Message != "tried before: "+want {
		t.Errorf("then: got %+v, %v, want what was said", d, err)
	}
}

// evicting is a world with pods, whose evictions all end alike.
type evicting struct {
	*world
	obs    Observation
	result rollout.AttemptResult
	err    error
}

func (e *evicting) Snapshot() ([]health.Node, []health.DaemonSet, []*health.Pod) {
	return e.obs.Nodes, e.obs.DaemonSets, e.obs.Pods
}

func (e *evicting) Evict(_ context.Context, d rollout.Decision) rollout.Attempt {
	return rollout.Attempt{Decision: d, Result: e.result, Err: e.err}
}

// Those who carry out a plan review several decisions side by side.
func TestDecisionsMayBeReviewedSideBySide(t *testing.T) {
	s := &reviewing{slow: &slow{world: &world{objects: map[string]string{"cni": "old"}}, now: open}}
	s.stored.Inventory = inventory.NewSet(daemonSetID(agents), configMap("a"))
	s.stored.Ledger = s.stored.Ledger.Govern(fleetOf(t, governed).Policies)
	var asked atomic.Int64
	clock := &doubtful{problem: func() string {
		if asked.Add(1) > 4 {
			return "it was set back"
		}
		return ""
	}}
	r := NewReconciler(Options{Instance: us, Cluster: s, Store: s, Now: func() time.Time { return open }, Clock: clock})
	if _, err := r.Pass(t.Context(), Source{Fleet: fleetOf(t, governed)}); err != nil {
		t.Fatal(err)
	}
	if s.reviewed == 0 || s.objects["cni"] != "old" {
		t.Errorf("reviewed %d times, and the DaemonSet is %q; want it as it was: the clock is in doubt by now", s.reviewed, s.objects["cni"])
	}
}

// reviewing is a world in which every decision is reviewed by many at once.
type reviewing struct {
	*slow
	reviewed int
}

func (s *reviewing) Apply(ctx context.Context, steps [][]inventory.Decision, review func([]inventory.Decision) []inventory.Decision) []inventory.Outcome {
	var all sync.WaitGroup
	for range 8 {
		for _, step := range steps {
			all.Go(func() {
				for i := range step {
					review(step[i : i+1])
				}
				review(step)
			})
		}
	}
	all.Wait()
	s.reviewed++
	return s.slow.Apply(ctx, steps, review)
}

type doubtful struct{ problem func() string }

func (d *doubtful) Problem() string                { return d.problem() }
func (d *doubtful) Confirm(context.Context) string { return "" }
