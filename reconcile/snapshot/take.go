// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Owned is an object that the instance owns: its metadata, and the fields that
// were applied with their live values; nil when they are not known.
type Owned struct {
	Live    inventory.Live
	Applied *unstructured.Unstructured
}

// New takes a snapshot of what was observed.
func New(obs reconcile.Observation, owned []Owned, now time.Time) (Snapshot, error) {
	s := Snapshot{
		Taken: now.UTC().Truncate(time.Second), Instance: Instance(obs.Instance),
		Record: withoutMetadata(obs.State.Record), Ledger: ledgerWithoutMetadata(obs.State.Ledger),
		Objects: []Object{}, Nodes: []Node{}, DaemonSets: []DaemonSet{}, Pods: []Pod{}, References: [][]string{},
	}
	for _, o := range owned {
		object, err := objectOf(o)
		if err != nil {
			return Snapshot{}, err
		}
		s.Objects = append(s.Objects, object)
	}
	for _, n := range obs.Nodes {
		s.Nodes = append(s.Nodes, nodeOf(n))
	}
	for _, d := range obs.DaemonSets {
		s.DaemonSets = append(s.DaemonSets, daemonSetOf(d))
	}
	s.pods(obs.Pods)
	slices.SortFunc(s.Objects, func(a, b Object) int { return cmp.Compare(a.Object, b.Object) })
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.DaemonSets, func(a, b DaemonSet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return s, nil
}

func objectOf(o Owned) (Object, error) {
	l := o.Live
	out := Object{
		Object: inventory.Format(l.ID), UID: l.UID, Annotations: l.Annotations, Gone: l.Gone,
		Deleting: l.Deleting, Finalizers: l.Finalizers, Foreign: l.Foreign,
	}
	if l.Defines.Kind != "" {
		out.Defines = l.Defines.String()
	}
	if l.Err != nil {
		out.Error = l.Err.Error()
	}
	if o.Applied == nil || l.ID.GroupKind == secretKind {
		return out, nil
	}
	var err error
	if out.Applied, out.Template, err = digests(o.Applied); err != nil {
		return Object{}, fmt.Errorf("%s: %w", out.Object, err)
	}
	return out, nil
}

var (
	secretKind    = schema.GroupKind{Kind: "Secret"}
	daemonSetKind = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
)

// digests are of an object as it is applied, whatever the version of its API,
// and of a DaemonSet's pod template.
func digests(o *unstructured.Unstructured) (object, template string, err error) {
	fields := o.DeepCopy().Object
	delete(fields, "apiVersion")
	// It tells ways to write the same apart, which this is not to.
	unstructured.RemoveNestedField(fields, "metadata", "annotations", inventory.AppliedAnnotation)
	if object, err = digest(canonical(fields)); err != nil {
		return "", "", err
	}
	if o.GroupVersionKind().GroupKind() != daemonSetKind {
		return object, "", nil
	}
	spec, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	if err != nil {
		return "", "", err
	}
	template, err = digest(canonical(spec))
	return object, template, err
}

func digest(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}

// canonical drops fields that say nothing, as the API server does, and writes
// quantities as it does. Items of lists stay: an empty one may mean everything.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, field := range v {
			if key == "limits" || key == "requests" {
				field = quantities(field)
			}
			if field = canonical(field); !blank(field) {
				out[key] = field
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = canonical(v[i])
		}
		return out
	default:
		return v
	}
}

func blank(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}

func quantities(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for key, field := range fields {
		out[key] = field
		if q, err := resource.ParseQuantity(fmt.Sprint(field)); err == nil {
			out[key] = q.String()
		}
	}
	return out
}

func nodeOf(n health.Node) Node {
	out := Node{
		Name: n.Name, Labels: n.Labels, Ready: n.Ready, Since: n.Since.UTC(), NotReadyReason: n.NotReadyReason,
		Unschedulable: n.Unschedulable, Deleting: n.Deleting, Hold: n.Hold,
		Maintenance: n.Maintenance, AtWork: n.AtWork, CordonedBy: n.CordonedBy, CordonTakenBy: n.CordonTakenBy,
		Created: n.Created.UTC(),
	}
	for _, c := range n.Conditions {
		if out.Conditions == nil {
			out.Conditions = map[string]string{}
		}
		out.Conditions[string(c.Type)] = string(c.Status)
	}
	for _, t := range n.Taints {
		out.Taints = append(out.Taints, Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return out
}

func daemonSetOf(d health.DaemonSet) DaemonSet {
	out := DaemonSet{
		Namespace: d.Name.Namespace, Name: d.Name.Name, UID: d.UID, Created: d.Created.UTC(),
		Generation: d.Generation, TemplateGeneration: d.TemplateGeneration, Revision: d.Revision,
		RevisionObserved: d.RevisionObserved, OnDelete: d.OnDelete, Hold: d.Hold, MinReadySeconds: d.MinReadySeconds,
		Deleting: d.Deleting,
	}
	for _, l := range d.Locks {
		out.Locks = append(out.Locks, l.Node)
		if l.Until.IsZero() {
			continue
		}
		if out.LockEnds == nil {
			out.LockEnds = map[string]time.Time{}
		}
		out.LockEnds[l.Node] = l.Until.UTC()
	}
	if t := d.Template; t != nil {
		out.NodeName, out.NodeSelector, out.Tolerations, out.HostNetwork = t.NodeName, t.NodeSelector, t.Tolerations, t.HostNetwork
		if t.Affinity != nil {
			out.Affinity = t.Affinity.NodeAffinity
		}
		out.References = formatAll(health.References(t, d.Name.Namespace))
	}
	for _, r := range d.History {
		out.Revisions = append(out.Revisions, Revision{
			Namespace: r.Name.Namespace, Name: r.Name.Name, Owner: r.Owner, Hash: r.Hash, Number: r.Number, Deleting: r.Deleting,
			References: formatAll(r.References),
		})
	}
	slices.SortFunc(out.Revisions, func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// pods takes the pods in order of their names. Pods of one revision name the same
// objects, so each set of references is written once.
func (s *Snapshot) pods(pods []*health.Pod) {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b *health.Pod) int {
		return cmp.Or(cmp.Compare(a.Name.Namespace, b.Name.Namespace), cmp.Compare(a.Name.Name, b.Name.Name), cmp.Compare(a.UID, b.UID))
	})
	places := map[string]int{}
	for _, p := range sorted {
		references := -1
		if set := formatAll(p.References); len(set) > 0 {
			key, known := strings.Join(set, " "), false
			if references, known = places[key]; !known {
				references = len(s.References)
				places[key] = references
				s.References = append(s.References, set)
			}
		}
		s.Pods = append(s.Pods, Pod{
			Namespace: p.Name.Namespace, Name: p.Name.Name, UID: p.UID, Node: p.Node, Owner: p.Owner,
			Hash: p.Hash, TemplateGeneration: p.TemplateGeneration, Phase: p.Phase,
			Created: p.Created.UTC(), Ready: p.Ready, ReadySince: p.ReadySince.UTC(), UnreadySince: p.UnreadySince.UTC(),
			Deleting: p.Deleting, DeletionDeadline: p.DeletionDeadline.UTC(), Finalizers: p.Finalizers,
			GraceSeconds: int64(p.GracePeriod / time.Second), Problem: p.Problem.Reason, ProblemMessage: p.Problem.Message,
			References: references, Disruption: p.Disruption,
		})
	}
}

// withoutMetadata leaves of the policies on record what is acted on: labels and
// annotations may hold anything.
func withoutMetadata(r reconcile.Record) reconcile.Record {
	r.Documents = bare(r.Documents)
	return r
}

func ledgerWithoutMetadata(l rollout.Ledger) rollout.Ledger {
	governed := map[string]rollout.Governance{}
	for name, g := range l.Governed {
		g.Documents = bare(g.Documents)
		governed[name] = g
	}
	if len(governed) > 0 {
		l.Governed = governed
	}
	return l
}

func bare(docs []policy.Document) []policy.Document {
	var out []policy.Document
	for _, d := range docs {
		object := map[string]any{}
		for _, field := range []string{"apiVersion", "kind", "spec"} {
			if v, ok := d.Object[field]; ok {
				object[field] = v
			}
		}
		if metadata, ok := d.Object["metadata"].(map[string]any); ok {
			object["metadata"] = map[string]any{"name": metadata["name"]}
		}
		d.Object = object
		out = append(out, d)
	}
	return out
}
