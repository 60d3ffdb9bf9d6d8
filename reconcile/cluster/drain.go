// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/kubectl/pkg/drain"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

const (
	// drainsInFlight is how many nodes are looked at at once.
	drainsInFlight = 8
	// longestLook bounds one look at a node, for which the pass waits. It is more
	// than a webhook has by default.
	longestLook = 15 * time.Second
)

// Drain takes each node of the decisions one step further: it is cordoned and
// marked as ours, and the pods that have to go are evicted, those that are refused
// too, once. But first it asks whether the eviction for which the node is to be
// emptied would be allowed: if not, nothing is done. It waits for no pod; the next look tells what is left. Which
// pods have to go, and which may not, is as for kubectl drain. The attempts are in
// the order of the decisions.
func (c *Cluster) Drain(ctx context.Context, decisions []rollout.Decision) []rollout.Attempt {
	attempts := make([]rollout.Attempt, len(decisions))
	var work errgroup.Group
	work.SetLimit(drainsInFlight)
	for i, d := range decisions {
		work.Go(func() error {
			attempts[i] = rollout.Attempt{Decision: d}
			left, err := c.drainOnce(ctx, d)
			a := &attempts[i]
			switch refused, ok := errors.AsType[*refusedError](err); {
			case ok:
				a.Result, a.Message = rollout.Refused, refused.message
			case err != nil:
				a.Result, a.Message, a.Err = rollout.Errored, oneLine(err.Error()), err
			case left != "":
				a.Result, a.Message = rollout.Remaining, left
			default:
				a.Result = rollout.Drained
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	return attempts
}

// drainOnce says what is left on a node; "" when it is drained.
func (c *Cluster) drainOnce(ctx context.Context, d rollout.Decision) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("not drained: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, min(longestLook, c.opts.RequestTimeout))
	defer cancel()
	if err := c.cordon(ctx, d); err != nil {
		return "", fmt.Errorf("cordon: %w", err)
	}
	helper := &drain.Helper{
		Ctx: ctx, Client: c.typed, GracePeriodSeconds: -1, IgnoreAllDaemonSets: true, ChunkSize: pageSize,
		Force: d.Drain.Force, DeleteEmptyDirData: d.Drain.DeleteEmptyDirData, PodSelector: d.Drain.PodSelector,
		Out: io.Discard, ErrOut: io.Discard,
	}
	list, errs := helper.GetPodsForDeletion(d.Node)
	if len(errs) > 0 { // pods that may not go, or no list; nothing is evicted in vain
		return "", errors.Join(errs...)
	}
	pods := list.Pods()
	return remaining(pods, c.evictOthers(ctx, pods)), nil
}

// othersInFlight is how many of the pods that are in the way are evicted at once.
const othersInFlight = 16

// evictOthers evicts the pods that are in the way, side by side, so that one that
// takes long keeps no other. It returns what refused each.
func (c *Cluster) evictOthers(ctx context.Context, pods []corev1.Pod) []string {
	refusals := make([]string, len(pods))
	var work errgroup.Group
	work.SetLimit(othersInFlight)
	for i := range pods {
		work.Go(func() error {
			refusals[i] = c.evictOther(ctx, &pods[i])
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	return refusals
}

// remaining says which pods are left, and what refused the first.
func remaining(pods []corev1.Pod, refusals []string) string {
	if len(pods) == 0 {
		return ""
	}
	if i := slices.IndexFunc(refusals, func(r string) bool { return r != "" }); i >= 0 {
		return fmt.Sprintf("%d pods are left; %s", len(pods), refusals[i])
	}
	return fmt.Sprintf("%d pods are left, first %s/%s", len(pods), pods[0].Namespace, pods[0].Name)
}

// evictOther evicts one pod that is in the way, once. It returns what refused it.
func (c *Cluster) evictOther(ctx context.Context, p *corev1.Pod) string {
	if p.DeletionTimestamp != nil || ctx.Err() != nil {
		return ""
	}
	err := c.typed.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	status, answered := statusOf(err)
	switch {
	case err == nil, answered && (status.Code == http.StatusNotFound || status.Code == http.StatusConflict):
		return ""
	case answered && status.Code == http.StatusTooManyRequests:
		return strings.TrimSpace(fmt.Sprintf("%s/%s: %s %s", p.Namespace, p.Name, oneLine(status.Message), c.budget(ctx, p.Namespace, status)))
	}
	return fmt.Sprintf("%s/%s: %s", p.Namespace, p.Name, oneLine(err.Error()))
}

// refusedError says that the eviction for which a node is to be emptied would be
// refused.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return e.message }

// rehearseEviction asks the API server about the eviction that follows a drain. If
// it does not know, the eviction itself will tell.
func (c *Cluster) rehearseEviction(ctx context.Context, d rollout.Decision) error {
	if d.Pod == nil {
		return nil
	}
	eviction := evictionOf(d)
	eviction.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	err := c.typed.PolicyV1().Evictions(eviction.Namespace).Evict(ctx, eviction)
	switch a := c.attempt(ctx, d, err); {
	case a.Result == rollout.Refused:
		return &refusedError{a.Message}
	case a.Result == rollout.Errored && !noDryRun(a.Err):
		return fmt.Errorf("try the eviction that follows: %w", a.Err)
	}
	return nil
}

// errCordoned ends a drain: the node is left to whoever cordoned it.
var errCordoned = errors.New("somebody else has cordoned the node meanwhile")

// cordon marks a node as cordoned by us, unless somebody else has cordoned it:
// what is not ours is not taken off after the visit. A node that changes all the
// time is read again, so that nothing is evicted from one that fills up again.
func (c *Cluster) cordon(ctx context.Context, d rollout.Decision) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return c.once(ctx, func(ctx context.Context) error { return c.cordonOnce(ctx, d) })
	})
}

func (c *Cluster) cordonOnce(ctx context.Context, d rollout.Decision) error {
	node, err := c.typed.CoreV1().Nodes().Get(ctx, d.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	mark := rollout.CordonMark(c.opts.Instance.ID(), d.Policy)
	known := health.NodeOf(node)
	switch ours := known.CordonedBy == mark && known.CordonTakenBy == ""; {
	case node.Spec.Unschedulable && !ours && !d.CordonedToo:
		return errCordoned
	case node.Spec.Unschedulable && !ours: // there is no mark to tell the first look from others
		return c.rehearseEviction(ctx, d)
	case node.Spec.Unschedulable:
		return nil
	}
	if err := c.rehearseEviction(ctx, d); err != nil {
		return err
	}
	return c.patchNode(ctx, d.Node, map[string]any{
		"metadata": map[string]any{
			"resourceVersion": node.ResourceVersion, // nobody has cordoned it since
			"annotations":     map[string]any{health.CordonedByAnnotation: mark},
		},
		"spec": map[string]any{"unschedulable": true},
	})
}

// Uncordon takes cordon and mark off nodes, as far as the mark is still the one
// that is meant; and only the mark if somebody else has cordoned the node since.
// What fails is not tried again: whoever asks comes back.
func (c *Cluster) Uncordon(ctx context.Context, nodes []rollout.Uncordon) error {
	errs := make([]error, len(nodes))
	var work errgroup.Group
	work.SetLimit(drainsInFlight)
	for i, u := range nodes {
		work.Go(func() error {
			if err := c.uncordon(ctx, u); err != nil {
				errs[i] = fmt.Errorf("uncordon node %s: %w", u.Node, err)
			}
			return nil
		})
	}
	return errors.Join(work.Wait(), errors.Join(errs...))
}

func (c *Cluster) uncordon(ctx context.Context, u rollout.Uncordon) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return c.once(ctx, func(ctx context.Context) error { return c.uncordonOnce(ctx, u) })
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *Cluster) uncordonOnce(ctx context.Context, u rollout.Uncordon) error {
	node, err := c.typed.CoreV1().Nodes().Get(ctx, u.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	known := health.NodeOf(node)
	ours := node.Spec.Unschedulable && known.CordonTakenBy == ""
	if known.CordonedBy != rollout.CordonMark(c.opts.Instance.ID(), u.Policy) || (u.MarkOnly && ours) {
		return nil // what has been cordoned since that was decided is for the next plan
	}
	change := map[string]any{"metadata": map[string]any{
		"resourceVersion": node.ResourceVersion, // nobody has cordoned it since
		"annotations":     map[string]any{health.CordonedByAnnotation: nil},
	}}
	if ours {
		change["spec"] = map[string]any{"unschedulable": nil}
	}
	return c.patchNode(ctx, u.Node, change)
}

func (c *Cluster) patchNode(ctx context.Context, name string, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = c.typed.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: inventory.FieldManager})
	return err
}
