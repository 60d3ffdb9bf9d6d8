// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
)

// compare asks the API server what an apply would make of the live object. The
// result is remembered, unless it is an error.
func (c *Cluster) compare(ctx context.Context, t target, change inventory.Change, hash string) (inventory.Change, error) {
	var current *unstructured.Unstructured
	err := c.try(ctx, func(ctx context.Context) (err error) {
		current, err = c.resource(t).Get(ctx, t.id.Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) { // it went in the meantime
		return inventory.Change{ID: t.id, Kind: inventory.Create, Object: t.object}, nil
	}
	if err != nil {
		return failed(ctx, change, err)
	}
	change.Live = current
	former := c.hasFormer(current, t.object)
	merged, err := c.dryRun(ctx, t, current.GetUID())
	if err == nil && former {
		merged, err = c.foretell(ctx, t, current, merged)
	}
	if unanswerable(err) && !former && change.Owner == c.opts.Instance.ID() {
		switch same, err := asApplied(current, t.object); {
		case err != nil:
			return failed(ctx, change, err)
		case same:
			change.Kind, change.Drifted, change.Live = inventory.None, false, nil
			return change, c.learn(t.id, known{hash: hash, clean: true, change: change}, current)
		}
	}
	if noDryRun(err) { // an admission webhook is in the way: only a real apply can tell
		change.TemplateChanged = t.id.GroupKind == daemonSetKind
		return change, nil
	}
	if err != nil {
		return c.refusedDryRun(ctx, t, change, hash, err)
	}
	change.Merged = merged
	if t.id.GroupKind == daemonSetKind {
		change.TemplateChanged = !sameTemplate(current, merged)
	}
	if !former && sameContent(current, merged) {
		change.Kind, change.Drifted = inventory.None, false
		change.Live, change.Merged = nil, nil
	}
	if change.Drifted {
		change.DriftedBy, change.DriftedFields = changedBy(current, merged), changedFields(current, merged)
	}
	return change, c.learn(t.id, known{hash: hash, clean: !former, change: change}, current)
}

// failed puts an error about one object into its change. The end of ctx is an
// error about all.
func failed(ctx context.Context, change inventory.Change, err error) (inventory.Change, error) {
	if ctx.Err() != nil {
		return change, context.Cause(ctx)
	}
	change.Err = refusal(change.ID.GroupKind, err)
	return change, nil
}

// refusedDryRun remembers for a while what the API server said, so that a pass
// for another reason does not ask again.
func (c *Cluster) refusedDryRun(ctx context.Context, t target, change inventory.Change, hash string, err error) (inventory.Change, error) {
	l, liveErr := liveOf(change.Live)
	if liveErr != nil {
		return change, liveErr
	}
	change, err = c.refusedUpdate(ctx, t, l, change, err)
	if err != nil {
		return change, err
	}
	return change, c.learn(change.ID, known{hash: hash, change: change, until: c.deadline(errorHolds)}, change.Live)
}

// noDryRun recognises the answer that an admission webhook with side effects
// gives to a dry run, and that which says nothing of an apply, before which the
// versions of managed fields are put right.
func noDryRun(err error) bool {
	status, ok := statusOf(err)
	return ok && (oldVersion(status) || apierrors.IsBadRequest(err) && strings.Contains(status.Message, "does not support dry run"))
}

// unanswerable recognises the second of the two. It comes as often as somebody
// applies a custom object at an older version, whatever he applies.
func unanswerable(err error) bool {
	status, ok := statusOf(err)
	return ok && oldVersion(status)
}

// asApplied reports whether a live object says itself that it is what Git says, and is.
func asApplied(current, git *unstructured.Unstructured) (bool, error) {
	l, err := liveOf(current)
	if err != nil || !l.carries(git) {
		return false, err
	}
	after, err := likely(current, git)
	return err == nil && sameContent(current, after), err
}

// bookkeeping are the metadata that say nothing about what an object is.
var bookkeeping = []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}

// sameContent compares two answers of the API server, bookkeeping and status
// apart.
func sameContent(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(contentOf(a), contentOf(b))
}

func contentOf(obj *unstructured.Unstructured) map[string]any {
	content := make(map[string]any, len(obj.Object))
	for field, value := range obj.Object {
		if field != "status" {
			content[field] = value
		}
	}
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		kept := make(map[string]any, len(metadata))
		for field, value := range metadata {
			kept[field] = value
		}
		for _, field := range bookkeeping {
			delete(kept, field)
		}
		if annotations, ok := kept["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, inventory.AppliedAnnotation)
			kept["annotations"] = annotations
		}
		content["metadata"] = kept
	}
	return content
}

func sameTemplate(a, b *unstructured.Unstructured) bool {
	before, _, errBefore := unstructured.NestedFieldNoCopy(a.Object, "spec", "template")
	after, _, errAfter := unstructured.NestedFieldNoCopy(b.Object, "spec", "template")
	return errBefore == nil && errAfter == nil && equality.Semantic.DeepEqual(before, after)
}
