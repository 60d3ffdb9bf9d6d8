// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// A DaemonSet is what decisions need to know of a DaemonSet object.
type DaemonSet struct {
	Name             types.NamespacedName
	UID              types.UID
	Created          time.Time
	Generation       int64
	Revision         string // the hash of its newest ControllerRevision; "" when there is none
	RevisionObserved bool   // the controller has seen the newest generation, so Revision is of it
	TemplatePending  bool   // Git has a newer template that is not applied yet; set by the caller
	OnDelete         bool   // the update strategy leaves replacing pods to us
	Hold             string // the hold annotation's reason; "" when not held
	MinReadySeconds  int32
	// TemplateGeneration counts the templates that it has had; 0 when that is not known.
	TemplateGeneration int64
	Template           *corev1.PodSpec // shared with the object; read only
	Deleting           bool            // has a deletionTimestamp
	Locks              []Lock          // on the nodes that it is about to reboot, if it is kured's
	History            []Revision      // those that it controls, in no order
}

// DaemonSetOf reads a DaemonSet object and the ControllerRevisions around it.
//
// The revision is the hash label of the ControllerRevision with the highest
// revision number that the DaemonSet itself controls: one that was copied by
// hand, or that belongs to a DaemonSet of the same name before this one, does
// not count. The hash is never computed, since it depends on the API server's
// types and on collisions. It is trusted only once the DaemonSet controller has
// observed the newest generation, and only if it is of the template in force: what
// is told of DaemonSets may be ahead of what is told of revisions.
func DaemonSetOf(d *appsv1.DaemonSet, revisions []Revision) DaemonSet {
	history := controlled(d, revisions)
	newest := newestOf(history)
	return DaemonSet{
		Name:               types.NamespacedName{Namespace: d.Namespace, Name: d.Name},
		UID:                d.UID,
		Created:            d.CreationTimestamp.Time,
		Generation:         d.Generation,
		Revision:           newest.Hash,
		RevisionObserved:   newest.Hash != "" && d.Status.ObservedGeneration >= d.Generation && newest.isOf(&d.Spec.Template),
		OnDelete:           d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType,
		Hold:               holdOf(d.Annotations),
		MinReadySeconds:    d.Spec.MinReadySeconds,
		TemplateGeneration: templateGeneration(d.Annotations[appsv1.DeprecatedTemplateGeneration]),
		Template:           &d.Spec.Template.Spec,
		Deleting:           d.DeletionTimestamp != nil,
		Locks:              locksOf(d.Annotations),
		History:            history,
	}
}

// UpToDate says that a pod was made from the template in force: its hash is that of
// the revision or, as the DaemonSet controller has it, it is of the same template
// generation. An upgrade of the control plane may write a template that has not
// changed down as another revision, and that is no reason to restart anything. Pods
// that are older than the DaemonSet were adopted, and their generations are not its.
func (d *DaemonSet) UpToDate(p *Pod) bool {
	if p.Hash == d.Revision {
		return p.Hash != ""
	}
	return d.TemplateGeneration != 0 && p.TemplateGeneration == d.TemplateGeneration && !p.Created.Before(d.Created)
}

// templateGeneration reads a label or an annotation; 0 when it is none.
func templateGeneration(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// RevisionAt finds the revision with a hash in its history.
func (d *DaemonSet) RevisionAt(hash string) (Revision, bool) {
	i := slices.IndexFunc(d.History, func(r Revision) bool { return r.Hash == hash && hash != "" })
	if i < 0 {
		return Revision{}, false
	}
	return d.History[i], true
}

func controlled(d *appsv1.DaemonSet, revisions []Revision) []Revision {
	var out []Revision
	for _, r := range revisions {
		if r.Owner == d.UID && r.Owner != "" && r.Name.Namespace == d.Namespace && !r.Deleting {
			out = append(out, r)
		}
	}
	return out
}

// newestOf is the revision with the highest number; the zero Revision if there is none.
func newestOf(history []Revision) Revision {
	var newest Revision
	for i, r := range history {
		if i == 0 || r.Number > newest.Number || (r.Number == newest.Number && r.Name.Name > newest.Name.Name) {
			newest = r
		}
	}
	return newest
}

// isOf says that the revision holds a pod template.
func (r Revision) isOf(template *corev1.PodTemplateSpec) bool {
	return r.Template != nil && apiequality.Semantic.DeepEqual(r.Template, template)
}
