// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/multierror"
	"sigs.k8s.io/cli-utils/pkg/object"
	"sigs.k8s.io/cli-utils/pkg/object/dependson"
	"sigs.k8s.io/cli-utils/pkg/object/graph"
	"sigs.k8s.io/cli-utils/pkg/object/validation"
)

// CycleError says that objects depend on each other in a circle, so that no
// order to apply them exists.
type CycleError struct{ IDs []ID } // in order of dependency, the first is not repeated

func (e *CycleError) Error() string {
	var names []string
	for _, id := range append(slices.Clone(e.IDs), e.IDs[0]) {
		names = append(names, Format(id))
	}
	return "dependency cycle: " + strings.Join(names, " -> ")
}

// Order is the order in which the objects of some changes are applied. It is a
// value that never changes.
type Order struct {
	order
	objects []*unstructured.Unstructured // of the changes, as they came
	ids     [][]ID                       // by step
	cycle   *CycleError                  // why there is no order, nil if there is one
}

// OrderOf finds out the order of changes that have no object twice.
func OrderOf(changes []Change) *Order {
	out := &Order{objects: make([]*unstructured.Unstructured, 0, len(changes))}
	byID := make(map[ID]*unstructured.Unstructured, len(changes))
	for _, c := range changes {
		out.objects = append(out.objects, c.Object)
		byID[c.ID] = c.Object
	}
	sorted := make([]*unstructured.Unstructured, 0, len(byID))
	for _, id := range sortedKeys(byID) {
		sorted = append(sorted, byID[id])
	}
	out.order = orderOf(sorted)
	layers, leftOver := out.layers()
	if len(leftOver) > 0 {
		out.cycle = out.circle(leftOver)
		return out
	}
	out.ids = out.steps(layers)
	return out
}

// Is reports whether the order is that of these changes: they have the same
// objects, which nobody has changed in place. A nil Order is that of none.
func (o *Order) Is(changes []Change) bool {
	return o != nil && slices.EqualFunc(o.objects, changes, func(object *unstructured.Unstructured, c Change) bool {
		return object == c.Object
	})
}

// order is the dependency graph of some objects.
type order struct {
	graph *graph.Graph
	all   []ID // sorted
	// faults says which depends-on annotations cannot be followed, and why.
	faults map[ID]string
	// asked are the dependencies that annotations ask for.
	asked map[ID][]ID
}

// orderOf builds the graph: definitions before their kinds, namespaces before
// their members, and what depends-on annotations say.
func orderOf(objs []*unstructured.Unstructured) order {
	o := order{faults: map[ID]string{}, asked: map[ID][]ID{}}
	known := map[ID]bool{}
	for _, obj := range objs {
		known[IDOf(obj)] = true
	}
	o.all = sortedKeys(known)
	for _, obj := range objs {
		asked, fault := askedFor(obj, known)
		if fault != "" {
			o.faults[IDOf(obj)] = fault
		}
		if len(asked) > 0 {
			o.asked[IDOf(obj)] = asked
		}
	}
	g, err := graph.DependencyGraph(objs)
	o.graph = g
	for _, err := range multierror.Unwrap(err) {
		invalid, ok := errors.AsType[*validation.Error](err)
		if !ok {
			continue
		}
		for _, id := range invalid.Identifiers() {
			if o.faults[id] == "" {
				o.faults[id] = firstLine(invalid.Unwrap().Error())
			}
		}
	}
	return o
}

// askedFor are the dependencies that an object's depends-on annotation names,
// and why they cannot be followed, if they cannot.
func askedFor(obj *unstructured.Unstructured, known map[ID]bool) (asked []ID, fault string) {
	asked, err := dependson.ReadAnnotation(obj)
	if err != nil {
		return nil, firstLine(err.Error())
	}
	for _, id := range asked {
		if !known[id] {
			return asked, fmt.Sprintf("depends on %s, which is not rendered", Format(id))
		}
	}
	return asked, ""
}

// dependencies lists what id depends on, sorted.
func (o order) dependencies(id ID) []ID { return sorted(o.graph.Dependencies(id)) }

// dependents lists what depends on id, sorted.
func (o order) dependents(id ID) []ID { return sorted(o.graph.Dependents(id)) }

// layers puts the objects in layers such that each depends on earlier layers
// only. What is in a cycle, or depends on one, is left over. Unlike the
// graph's own Sort it takes time linear in the graph.
func (o order) layers() (layers [][]ID, leftOver []ID) {
	waits := map[ID]int{}
	var ready []ID
	for _, id := range o.all {
		if n := len(o.graph.Dependencies(id)); n > 0 {
			waits[id] = n
		} else {
			ready = append(ready, id)
		}
	}
	for len(ready) > 0 {
		layers = append(layers, ready)
		var next []ID
		for _, id := range ready {
			for _, dependent := range o.graph.Dependents(id) {
				if waits[dependent]--; waits[dependent] == 0 {
					delete(waits, dependent)
					next = append(next, dependent)
				}
			}
		}
		ready = sorted(next)
	}
	return layers, sortedKeys(waits)
}

// circle finds a cycle among objects each of which depends on another of them.
func (o order) circle(leftOver []ID) *CycleError {
	inside := NewSet(leftOver...)
	var path []ID
	for id := leftOver[0]; ; {
		if start := slices.Index(path, id); start >= 0 {
			return &CycleError{IDs: path[start:]}
		}
		path = append(path, id)
		deps := o.dependencies(id)
		id = deps[slices.IndexFunc(deps, inside.Contains)]
	}
}

// Objects that do not name each other still have an order: what pods need, then
// the pods, and at the very end what may reject others.
const (
	needed = iota
	workloads
	gates
)

func rank(id ID) int {
	switch id.GroupKind.Kind {
	case "DaemonSet", "Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "Pod", "ReplicationController":
		return workloads
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding", "APIService":
		return gates
	}
	return needed
}

// ComesLast reports whether an object may reject others, and is applied after all
// of them if nothing depends on it.
func ComesLast(id ID) bool { return rank(id) == gates }

// steps splits layers by rank. A gate that nothing depends on comes last.
func (o order) steps(layers [][]ID) [][]ID {
	var (
		out  [][]ID
		last []ID
	)
	for _, layer := range layers {
		var byRank [gates + 1][]ID
		for _, id := range layer {
			r := rank(id)
			if r == gates && len(o.graph.Dependents(id)) == 0 {
				last = append(last, id)
				continue
			}
			byRank[r] = append(byRank[r], id)
		}
		for _, ids := range byRank {
			if len(ids) > 0 {
				out = append(out, ids)
			}
		}
	}
	if len(last) > 0 {
		slices.SortFunc(last, Compare)
		out = append(out, last)
	}
	return out
}

func sorted(ids object.ObjMetadataSet) []ID {
	return slices.SortedFunc(slices.Values(ids), Compare)
}

func sortedKeys[V any](m map[ID]V) []ID {
	ids := make([]ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, Compare)
	return ids
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
