// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/health"
)

// Observe is what a pass would have observed of a fleet when the snapshot was
// taken, and what it cannot tell, a line each: nobody can ask the API server what
// it would make of an object.
func (s Snapshot) Observe(fleet *reconcile.Fleet) (reconcile.Observation, []string, error) {
	obs := reconcile.Observation{
		Instance: inventory.Instance(s.Instance), Fleet: fleet, Policies: fleet.Policies, Supposed: true,
		State: reconcile.State{Ledger: s.Ledger, Record: s.Record},
	}
	c := comparison{owned: map[inventory.ID]Object{}, live: map[types.NamespacedName]health.DaemonSet{}, instance: obs.Instance}
	var ids []inventory.ID
	for _, o := range s.Objects {
		id, err := inventory.ParseFormat(o.Object)
		if err != nil {
			return reconcile.Observation{}, nil, err
		}
		ids = append(ids, id)
		c.owned[id] = o
	}
	obs.State.Inventory = inventory.NewSet(ids...)
	for _, n := range s.Nodes {
		obs.Nodes = append(obs.Nodes, n.health())
	}
	for _, d := range s.DaemonSets {
		set, err := d.health()
		if err != nil {
			return reconcile.Observation{}, nil, err
		}
		obs.DaemonSets = append(obs.DaemonSets, set)
		c.live[set.Name] = set
	}
	references := make([][]inventory.ID, len(s.References))
	for i, set := range s.References {
		var err error
		if references[i], err = parseAll(set); err != nil {
			return reconcile.Observation{}, nil, err
		}
	}
	for _, p := range s.Pods {
		obs.Pods = append(obs.Pods, new(p.health(references)))
	}
	rendered := map[inventory.ID]bool{}
	for _, o := range fleet.Objects {
		change, err := c.compare(o)
		if err != nil {
			return reconcile.Observation{}, nil, err
		}
		obs.Changes = append(obs.Changes, change)
		rendered[change.ID] = true
	}
	for _, id := range ids {
		if !rendered[id] {
			obs.Orphans = append(obs.Orphans, c.owned[id].live(id))
		}
	}
	return obs, c.unknown(), nil
}

// comparison compares rendered objects with what is recorded of the live ones.
type comparison struct {
	owned    map[inventory.ID]Object
	live     map[types.NamespacedName]health.DaemonSet
	instance inventory.Instance

	secrets, strangers, unread []string // that cannot be compared
	differ                     int
}

func (c *comparison) compare(o *unstructured.Unstructured) (inventory.Change, error) {
	sent, err := inventory.Prepare(o, c.instance)
	if err != nil {
		return inventory.Change{ID: inventory.IDOf(o), Kind: inventory.Update, Object: o, Err: &inventory.RejectedError{Message: err.Error()}}, nil
	}
	change := inventory.Change{ID: inventory.IDOf(sent), Kind: inventory.None, Object: sent, Owner: c.instance.ID()}
	name := inventory.Format(change.ID)
	recorded, owned := c.owned[change.ID]
	set, exists := c.live[types.NamespacedName{Namespace: change.ID.Namespace, Name: change.ID.Name}]
	isDaemonSet := change.ID.GroupKind == daemonSetKind
	switch {
	case !owned && isDaemonSet && exists: // it would be adopted
		change.Kind, change.Owner, change.TemplateChanged = inventory.Update, "", true
		c.unread = append(c.unread, name)
	case !owned:
		change.Kind, change.Owner = inventory.Create, ""
		if !isDaemonSet {
			c.strangers = append(c.strangers, name)
		}
		return change, nil
	case recorded.Gone:
		change.Kind = inventory.Create
		return change, nil
	case change.ID.GroupKind == secretKind:
		c.secrets = append(c.secrets, name)
		return change, nil
	case recorded.Applied == "":
		c.unread = append(c.unread, name)
		change.Kind, change.TemplateChanged = inventory.Update, isDaemonSet
	default:
		object, template, err := digests(sent)
		if err != nil {
			return inventory.Change{}, fmt.Errorf("%s: %w", name, err)
		}
		if object == recorded.Applied {
			return change, nil
		}
		c.differ++
		change.Kind, change.TemplateChanged = inventory.Update, template != recorded.Template
	}
	change.Deleting = recorded.Deleting
	if isDaemonSet && exists {
		if change.Live, err = liveTemplate(set); err != nil {
			return inventory.Change{}, fmt.Errorf("%s: %w", name, err)
		}
		change.Merged = sent
	}
	return change, nil
}

// liveTemplate is a DaemonSet with what is recorded of its template: where its
// pods may run.
func liveTemplate(d health.DaemonSet) (*unstructured.Unstructured, error) {
	placement := corev1.PodSpec{
		NodeName: d.Template.NodeName, NodeSelector: d.Template.NodeSelector, Affinity: d.Template.Affinity, Tolerations: d.Template.Tolerations,
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&placement)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": fields}}}}, nil
}

// unknown says what could not be found out.
func (c *comparison) unknown() []string {
	var lines []string
	say := func(names []string, what string) {
		if len(names) > 0 {
			slices.Sort(names)
			lines = append(lines, what+": "+some(names))
		}
	}
	if c.differ > 0 {
		lines = append(lines, "what defaults and admission would add: an object that is written differently and means the same counts as changed")
	}
	say(c.secrets, "whether these Secrets change, since a snapshot holds none")
	say(c.strangers, "whether these exist already, since a snapshot holds only what the instance owns")
	say(c.unread, "what is applied of these, which count as changed")
	return lines
}

func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

func (o Object) live(id inventory.ID) inventory.Live {
	l := inventory.Live{
		ID: id, UID: o.UID, Annotations: o.Annotations, Gone: o.Gone, Deleting: o.Deleting,
		Finalizers: o.Finalizers, Foreign: o.Foreign,
	}
	if o.Defines != "" {
		l.Defines = schema.ParseGroupKind(o.Defines)
	}
	if o.Error != "" {
		l.Err = errors.New(o.Error)
	}
	return l
}

func (n Node) health() health.Node {
	out := health.Node{
		Name: n.Name, Labels: n.Labels, Ready: n.Ready, Since: n.Since, NotReadyReason: n.NotReadyReason,
		Unschedulable: n.Unschedulable, Deleting: n.Deleting, Hold: n.Hold,
		Maintenance: n.Maintenance, AtWork: n.AtWork, CordonedBy: n.CordonedBy, CordonTakenBy: n.CordonTakenBy,
		Created: n.Created,
	}
	for _, name := range slices.Sorted(maps.Keys(n.Conditions)) {
		out.Conditions = append(out.Conditions, health.NodeCondition{
			Type: corev1.NodeConditionType(name), Status: corev1.ConditionStatus(n.Conditions[name]),
		})
	}
	for _, t := range n.Taints {
		out.Taints = append(out.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return out
}

func (d DaemonSet) health() (health.DaemonSet, error) {
	references, err := parseAll(d.References)
	if err != nil {
		return health.DaemonSet{}, err
	}
	template := naming(references)
	template.NodeName, template.NodeSelector, template.Tolerations, template.HostNetwork = d.NodeName, d.NodeSelector, d.Tolerations, d.HostNetwork
	if d.Affinity != nil {
		template.Affinity = &corev1.Affinity{NodeAffinity: d.Affinity}
	}
	var history []health.Revision
	for _, r := range d.Revisions {
		references, err := parseAll(r.References)
		if err != nil {
			return health.DaemonSet{}, err
		}
		history = append(history, health.Revision{
			Name: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, Owner: r.Owner, Hash: r.Hash, Number: r.Number,
			Deleting: r.Deleting, References: references,
		})
	}
	return health.DaemonSet{
		Name: types.NamespacedName{Namespace: d.Namespace, Name: d.Name}, UID: d.UID, Created: d.Created,
		Generation: d.Generation, TemplateGeneration: d.TemplateGeneration, Revision: d.Revision,
		RevisionObserved: d.RevisionObserved, OnDelete: d.OnDelete, Hold: d.Hold, MinReadySeconds: d.MinReadySeconds,
		Deleting: d.Deleting, Locks: d.locks(), Template: template, History: history,
	}, nil
}

func (d DaemonSet) locks() []health.Lock {
	var locks []health.Lock
	for _, node := range d.Locks {
		locks = append(locks, health.Lock{Node: node, Until: d.LockEnds[node]})
	}
	return locks
}

// naming is a pod spec that names these objects, as [health.References] finds
// them, and nothing else.
func naming(ids []inventory.ID) *corev1.PodSpec {
	spec := &corev1.PodSpec{}
	volume := func(source corev1.VolumeSource) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{VolumeSource: source})
	}
	for _, id := range ids {
		switch id.GroupKind.Kind {
		case "ConfigMap":
			volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: id.Name}}})
		case "Secret":
			volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: id.Name}})
		case "PersistentVolumeClaim":
			volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: id.Name}})
		case "ServiceAccount":
			spec.ServiceAccountName = id.Name
		case "PriorityClass":
			spec.PriorityClassName = id.Name
		case "RuntimeClass":
			spec.RuntimeClassName = &id.Name
		case "ResourceClaim":
			spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{ResourceClaimName: &id.Name})
		case "ResourceClaimTemplate":
			spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{ResourceClaimTemplateName: &id.Name})
		case "StorageClass":
			volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &id.Name},
			}}})
		case "ClusterTrustBundle":
			volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &id.Name}},
			}}})
		}
	}
	return spec
}

func (p Pod) health(references [][]inventory.ID) health.Pod {
	out := health.Pod{
		Name: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, UID: p.UID, Node: p.Node, Owner: p.Owner,
		Hash: p.Hash, TemplateGeneration: p.TemplateGeneration, Phase: p.Phase,
		Created: p.Created, Ready: p.Ready, ReadySince: p.ReadySince, UnreadySince: p.UnreadySince,
		Deleting: p.Deleting, DeletionDeadline: p.DeletionDeadline, Finalizers: p.Finalizers,
		GracePeriod: time.Duration(p.GraceSeconds) * time.Second, Problem: health.Problem{Reason: p.Problem, Message: p.ProblemMessage},
		Disruption: p.Disruption,
	}
	if p.References >= 0 {
		out.References = references[p.References]
	}
	return out
}
