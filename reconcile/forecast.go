// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// Forecast is what comes of a plan, and of those that follow it, if nothing
// else happens to the cluster.
type Forecast struct {
	Rollout rollout.Forecast
	Impacts []Impact // of the DaemonSets whose pods are concerned, by ID
}

// Impact is what a change of one DaemonSet means for pods.
type Impact struct {
	ID inventory.ID
	// Change is what would be sent to the API server, at once or when its window
	// opens.
	Change rollout.ChangeKind
	// Restarts is the number of nodes on which a pod is replaced, visit by visit.
	Restarts int
	// Starts is the number of nodes that get a pod and have none.
	Starts int
	// Leaves is the number of nodes whose pod the DaemonSet controller ends at
	// once, all of them together.
	Leaves int
}

// Foresee runs the planner that made a plan on, on a simulated clock. What was
// refused, and what is held until somebody does something, stays as it is.
func Foresee(obs Observation, plan Plan, now time.Time) Forecast {
	f, observed := look(obs, plan)
	return Forecast{Rollout: rollout.Simulate(observed, obs.Policies.Upgrades, now), Impacts: f.impacts}
}

// Impacts are those of a forecast, without the simulation.
func Impacts(obs Observation, plan Plan) []Impact {
	f, _ := look(obs, plan)
	return f.impacts
}

// look finds what the plan does to DaemonSets, and what there is to plan with then.
func look(obs Observation, plan Plan) (foresight, rollout.Observed) {
	f := foresight{obs: obs, decided: map[inventory.ID]inventory.Decision{}, pods: map[types.UID]map[string]string{}, reversals: reversals(obs)}
	for _, d := range plan.Objects.Decisions() {
		f.decided[d.ID] = d
	}
	for _, p := range obs.Pods {
		if f.pods[p.Owner] == nil {
			f.pods[p.Owner] = map[string]string{}
		}
		f.pods[p.Owner][p.Node] = p.Hash
	}
	observed := rollout.Observed{
		Nodes: obs.Nodes, DaemonSets: daemonSets(obs), Pods: obs.Pods,
		Ledger: obs.State.Ledger, Commit: obs.commit().Hash, Rendered: renderedTemplates(obs),
		Answers: obs.Answers,
	}
	f.change(observed.DaemonSets)
	f.remove()
	f.create()
	slices.SortFunc(f.impacts, func(a, b Impact) int { return inventory.Compare(a.ID, b.ID) })
	observed.Pods = slices.DeleteFunc(slices.Clone(obs.Pods), func(p *health.Pod) bool { return f.leaving[podOn{p.Owner, p.Node}] })
	return f, observed
}

// foresight is a forecast while it is made.
type foresight struct {
	obs     Observation
	decided map[inventory.ID]inventory.Decision
	pods    map[types.UID]map[string]string // revisions of pods, by owner and node
	impacts []Impact
	leaving map[podOn]bool

	reversals map[inventory.ID]rollout.Reversal
}

type podOn struct {
	owner types.UID
	node  string
}

// change gives the DaemonSets the templates that they are to have.
func (f *foresight) change(sets []health.DaemonSet) {
	changes := map[inventory.ID]inventory.Change{}
	for _, c := range f.obs.Changes {
		changes[c.ID] = c
	}
	f.leaving = map[podOn]bool{}
	for i := range sets {
		d := &sets[i]
		id := daemonSetID(d.Name)
		c, rendered := changes[id]
		if !rendered || c.Kind != inventory.Update && c.Kind != inventory.Replace || (!c.TemplateChanged && c.Err == nil) {
			continue
		}
		if decision := f.decided[id]; !comes(decision) {
			d.Hold = "its change does not come: " + words(decision)
			continue
		}
		if !c.TemplateChanged {
			continue
		}
		impact := Impact{ID: id, Change: rollout.TemplateChange}
		if placementChanged(c) {
			impact.Change = rollout.PlacementChange
		}
		if template := templateOf(c); template != nil {
			d.Template = template
		}
		if c.Kind == inventory.Replace {
			impact.Change = rollout.Recreate
			f.replace(d, &impact)
		} else {
			f.place(d, &impact)
		}
		f.impacts = append(f.impacts, impact)
	}
}

// place counts on which nodes a changed template restarts, starts and ends pods.
func (f *foresight) place(d *health.DaemonSet, impact *Impact) {
	_, governed := f.obs.Policies.For(d.Name)
	mark, back := f.reversals[impact.ID]
	placer := health.NewPlacer(*d)
	for i := range f.obs.Nodes {
		node := &f.obs.Nodes[i]
		p := placer.On(node)
		switch hash, has := f.pods[d.UID][node.Name]; {
		case has && !p.ShouldContinue:
			impact.Leaves++
			f.leaving[podOn{d.UID, node.Name}] = true
		case has && back && hash == mark.To:
		case has && p.ShouldRun && (governed || !d.OnDelete):
			impact.Restarts++
		case !has && p.ShouldRun:
			impact.Starts++
		}
	}
}

// replace counts the pods that end with a DaemonSet, and those of its successor.
func (f *foresight) replace(d *health.DaemonSet, impact *Impact) {
	impact.Leaves = len(f.pods[d.UID])
	placer := health.NewPlacer(*d)
	for i := range f.obs.Nodes {
		node := &f.obs.Nodes[i]
		if _, has := f.pods[d.UID][node.Name]; has {
			f.leaving[podOn{d.UID, node.Name}] = true
		}
		if placer.On(node).ShouldRun {
			impact.Starts++
		}
	}
}

// remove counts the pods that end with a DaemonSet that leaves Git.
func (f *foresight) remove() {
	for _, d := range f.obs.DaemonSets {
		id := daemonSetID(d.Name)
		decision, ok := f.decided[id]
		if !ok || decision.Object != nil || decision.Action == inventory.Release || !comes(decision) {
			continue
		}
		f.impacts = append(f.impacts, Impact{ID: id, Change: rollout.Delete, Leaves: len(f.pods[d.UID])})
	}
}

// create counts the pods that a new DaemonSet gets.
func (f *foresight) create() {
	for _, c := range f.obs.Changes {
		if c.ID.GroupKind != daemonSetKind || c.Kind != inventory.Create || !comes(f.decided[c.ID]) {
			continue
		}
		impact := Impact{ID: c.ID, Change: rollout.Create}
		placer := health.NewPlacer(health.DaemonSet{Template: templateOf(c)})
		for i := range f.obs.Nodes {
			if placer.On(&f.obs.Nodes[i]).ShouldRun {
				impact.Starts++
			}
		}
		f.impacts = append(f.impacts, impact)
	}
}

// comes says that what Git wants comes about by itself: now, or when a window
// opens or a freeze ends.
func comes(d inventory.Decision) bool {
	switch d.Action {
	case inventory.Apply, inventory.Recreate, inventory.Prune:
		return true
	case inventory.Hold:
		return slices.Contains(rollout.Reasons(), rollout.Reason(d.Reason)) && rollout.Reason(d.Reason) != rollout.Paused
	}
	return false
}

func words(d inventory.Decision) string {
	if d.Message == "" {
		return string(d.Reason)
	}
	return string(d.Reason) + ": " + d.Message
}

// templateOf is the pod spec that a DaemonSet is to have: as the API server
// would have it, if that is known, else as it was rendered. It is nil if that
// cannot be read: then the API server says what is wrong with it.
func templateOf(c inventory.Change) *corev1.PodSpec {
	for _, from := range []*unstructured.Unstructured{c.Merged, c.Object} {
		if from == nil {
			continue
		}
		fields, found, err := unstructured.NestedMap(from.Object, "spec", "template", "spec")
		if err != nil || !found {
			continue
		}
		spec := &corev1.PodSpec{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec) == nil {
			return spec
		}
	}
	return nil
}
