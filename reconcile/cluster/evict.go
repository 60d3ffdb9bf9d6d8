// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/reconcile/rollout"
)

// evictionsInFlight is how many evictions are sent at once.
const evictionsInFlight = 16

// EvictResult is how an eviction ended.
type EvictResult string

// The results of an eviction.
const (
	Evicted EvictResult = "Evicted" // the pod is on its way out
	Gone    EvictResult = "Gone"    // that very pod does not exist any more
	Stale   EvictResult = "Stale"   // the pod has changed since it was decided
	Refused EvictResult = "Refused" // a disruption budget does not allow it now
	Failed  EvictResult = "Failed"
)

// EvictOutcome is what became of one eviction.
type EvictOutcome struct {
	Decision rollout.Decision
	Result   EvictResult
	Message  string // the API server's words, for Refused and Failed
}

// Evict sends the evictions among the decisions, side by side, through the
// Eviction API so that disruption budgets count. A pod is evicted only if it
// still is exactly the one that the decision is about. Nothing is sent after
// the end of ctx.
func (c *Cluster) Evict(ctx context.Context, decisions []rollout.Decision) []EvictOutcome {
	var due []rollout.Decision
	for _, d := range decisions {
		if d.Action == rollout.Evict && d.Pod != nil {
			due = append(due, d)
		}
	}
	out := make([]EvictOutcome, len(due))
	var work errgroup.Group
	work.SetLimit(evictionsInFlight)
	for i, d := range due {
		work.Go(func() error {
			out[i] = c.evictOne(ctx, d)
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	return out
}

func (c *Cluster) evictOne(ctx context.Context, d rollout.Decision) EvictOutcome {
	if ctx.Err() != nil {
		return EvictOutcome{Decision: d, Result: Failed, Message: "not sent: " + context.Cause(ctx).Error()}
	}
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Pod.Name.Namespace, Name: d.Pod.Name.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &d.Pod.UID, ResourceVersion: &d.Pod.ResourceVersion,
		}},
	}
	// Sent once: whether to repeat it is for the next plan to decide.
	err := c.once(ctx, func(ctx context.Context) error {
		return c.typed.PolicyV1().Evictions(eviction.Namespace).Evict(ctx, eviction)
	})
	o := EvictOutcome{Decision: d}
	switch {
	case err == nil:
		o.Result = Evicted
	case apierrors.IsNotFound(err):
		o.Result = Gone
	case apierrors.IsConflict(err):
		o.Result = Stale
	case apierrors.IsTooManyRequests(err):
		o.Result, o.Message = Refused, budgetMessage(err)
	default:
		o.Result, o.Message = Failed, oneLine(err.Error())
	}
	return o
}

// budgetMessage is what the API server says about the budget that refused.
func budgetMessage(err error) string {
	status, ok := statusOf(err)
	if !ok {
		return oneLine(err.Error())
	}
	message := oneLine(status.Message)
	if status.Details == nil {
		return message
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == policyv1.DisruptionBudgetCause {
			return fmt.Sprintf("%s %s", message, oneLine(cause.Message))
		}
	}
	return message
}
