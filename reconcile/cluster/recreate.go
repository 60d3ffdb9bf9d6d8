// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/inventory"
)

// refusedUpdate is the change of a live object that the API server would not
// update. If it would take the object as a new one, the fields that it names
// cannot be changed in place: then the object is to be replaced if Git allows
// that, or the error says how to.
func (c *Cluster) refusedUpdate(ctx context.Context, t target, l *live, change inventory.Change, err error) (inventory.Change, error) {
	fields, detail := refusedFields(t, err)
	if l == nil || len(fields) == 0 || !c.wouldCreate(ctx, t) {
		return failed(ctx, change, err)
	}
	message := inventory.Unchangeable(fields)
	if detail != "" {
		message += " (" + detail + ")"
	}
	switch {
	case !recreates(t.object):
		change.Err = &inventory.RejectedError{Message: message + ": the annotation " + inventory.RecreateAnnotation + `: "true" in Git has it deleted and created anew`}
	case t.id.GroupKind == namespaceKind || t.id.GroupKind == definitionKind:
		change.Err = &inventory.RejectedError{Message: message + ", and it is not re-created: what is in it would go with it"}
	case inventory.StaysOnRemoval(l.honoured) || inventory.StaysOnRemoval(t.object.GetAnnotations()):
		change.Err = &inventory.RejectedError{Message: message + ", and an annotation says that it is not to be deleted"}
	default:
		change.Kind, change.UID, change.Immutable = inventory.Replace, l.uid, fields
		change.TemplateChanged = t.id.GroupKind == daemonSetKind
	}
	return change, nil
}

// recreates reports whether Git lets an object be deleted and created anew.
func recreates(obj *unstructured.Unstructured) bool {
	return obj.GetAnnotations()[inventory.RecreateAnnotation] == "true"
}

// refusedFields are the fields because of which the API server calls an object
// invalid, sorted, and what it says of the first; nothing for another answer.
// What it says of a Secret may hold a value.
func refusedFields(t target, err error) (fields []string, detail string) {
	status, ok := statusOf(err)
	if !ok || status.Code != http.StatusUnprocessableEntity || status.Details == nil {
		return nil, ""
	}
	for _, cause := range status.Details.Causes {
		if cause.Field == "" || slices.Contains(fields, cause.Field) {
			continue
		}
		fields = append(fields, cause.Field)
		if detail == "" && t.id.GroupKind != secretKind {
			detail = detailOf(cause.Message)
		}
	}
	slices.Sort(fields)
	return fields, detail
}

// detailOf is the end of a message such as
// Invalid value: {"app":"b"}: field is immutable.
func detailOf(message string) string {
	if at := strings.LastIndex(message, ": "); at >= 0 {
		message = message[at+2:]
	}
	return strings.TrimSuffix(oneLine(message), ".")
}

// wouldCreate reports whether the API server would take an object if no other
// had its name. It finds that out before it looks whether one has.
func (c *Cluster) wouldCreate(ctx context.Context, t target) bool {
	obj := t.object.DeepCopy()
	obj.SetNamespace(t.namespace())
	freeAllocated(obj)
	err := c.try(ctx, func(ctx context.Context) error {
		_, err := c.resource(t).Create(ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: inventory.FieldManager})
		return err
	})
	return apierrors.IsAlreadyExists(err)
}

// freeAllocated drops what a Service has been given and, as long as it lives,
// no other may have.
func freeAllocated(obj *unstructured.Unstructured) {
	if gvk := obj.GroupVersionKind(); gvk.Group != "" || gvk.Kind != "Service" {
		return
	}
	for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
		if value, _, err := unstructured.NestedString(obj.Object, "spec", field); err == nil && value == "None" {
			continue // it has none
		}
		unstructured.RemoveNestedField(obj.Object, "spec", field)
	}
	ports, _, err := unstructured.NestedSlice(obj.Object, "spec", "ports")
	if err != nil {
		return // the API server says so
	}
	for _, port := range ports {
		if fields, ok := port.(map[string]any); ok {
			delete(fields, "nodePort")
		}
	}
	if len(ports) > 0 {
		if err := unstructured.SetNestedSlice(obj.Object, ports, "spec", "ports"); err != nil {
			panic(err) // spec is a map: the ports were in it
		}
	}
}

// successor is what an object that is replaced would be; nil if the API server
// does not tell, as when something in it has to fit its name.
func (c *Cluster) successor(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	freed := t
	freed.object = t.object.DeepCopy()
	freed.object.SetNamespace(t.namespace())
	freeAllocated(freed.object)
	created, err := c.dryCreate(ctx, freed)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		c.opts.Log.Debug("successor not predicted", "object", inventory.Format(t.id), "err", refusal(t.id.GroupKind, err))
		return nil, nil
	}
	created.SetName(t.id.Name)
	return created, nil
}

// dryCreate is what a new object of that content would be. It has another name,
// since its own is taken.
func (c *Cluster) dryCreate(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	twin := t.object.DeepCopy()
	twin.SetName(twinOf(twin.GetName()))
	var created *unstructured.Unstructured
	err := c.try(ctx, func(ctx context.Context) (err error) {
		created, err = c.resource(t).Create(ctx, twin, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: inventory.FieldManager})
		return err
	})
	return created, err
}

// twinOf is another name, no longer than any kind allows.
func twinOf(name string) string {
	const longest, tail = 63, "-dry-run"
	return strings.TrimRight(name[:min(len(name), longest-len(tail))], "-.") + tail
}

// makeWay deletes the object that a decision is about, with all that belongs to
// it, so that it can be created anew. Whatever ends the process meanwhile, the
// inventory has the object, and a later pass finds it missing and creates it. If
// the object is not gone in time, the outcome says what it waits for.
func (c *Cluster) makeWay(ctx context.Context, t target, d inventory.Decision) (o inventory.Outcome, gone bool) {
	c.forget(d.ID)
	r := removal{cluster: c, target: t, decision: d}
	for range tries {
		m, err := r.read(ctx)
		if apierrors.IsNotFound(err) {
			return o, true
		}
		if err == nil {
			err = c.mayReplace(m, d)
		}
		if err == nil {
			err = r.deleteWith(ctx, m, metav1.DeletePropagationForeground)
		}
		switch {
		case apierrors.IsConflict(err):
			continue
		case err != nil && !apierrors.IsNotFound(err):
			return c.refused(ctx, t, nil, err), false
		}
		result, err := r.confirm(ctx)
		return inventory.Outcome{ID: d.ID, Result: result, Err: err}, result == inventory.ResultPruned
	}
	return failure(d.ID, errors.New("it changes faster than it can be deleted")), false
}

// mayReplace looks once more at an object that is to be deleted.
func (c *Cluster) mayReplace(m *metav1.PartialObjectMetadata, d inventory.Decision) error {
	owner := m.Annotations[inventory.OwnerAnnotation]
	switch {
	case m.UID != d.UID:
		return errors.New("it was created anew since it was looked at")
	case !c.opts.Adoption.Allows(owner, c.opts.Instance):
		return fmt.Errorf("owned by inventory %s since it was looked at", owner)
	case inventory.StaysOnRemoval(m.Annotations):
		return errors.New("an annotation says that it is not to be deleted")
	}
	return nil
}
