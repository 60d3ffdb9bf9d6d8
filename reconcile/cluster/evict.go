// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lamplighter.dev/reconcile/rollout"
)

// Evict sends the eviction of a decision through the Eviction API, so that disruption
// budgets count. A pod is evicted only if it still is exactly the one that the decision
// is about. It is sent once: whether to repeat it is for the next plan to decide. Nothing
// is sent after the end of ctx.
func (c *Cluster) Evict(ctx context.Context, d rollout.Decision) rollout.Attempt {
	if ctx.Err() != nil {
		return rollout.Attempt{Decision: d, Result: rollout.Errored, Err: fmt.Errorf("not sent: %w", context.Cause(ctx))}
	}
	eviction := evictionOf(d)
	err := c.once(ctx, func(ctx context.Context) error {
		return c.typed.PolicyV1().Evictions(eviction.Namespace).Evict(ctx, eviction)
	})
	return c.attempt(ctx, d, err)
}

// evictionOf is the eviction of a decision, of exactly the pod that it is about.
func evictionOf(d rollout.Decision) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Pod.Name.Namespace, Name: d.Pod.Name.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &d.Pod.UID, ResourceVersion: &d.Pod.ResourceVersion,
		}},
	}
}

// attempt reads the API server's answer to an eviction.
func (c *Cluster) attempt(ctx context.Context, d rollout.Decision, err error) rollout.Attempt {
	a := rollout.Attempt{Decision: d, Result: rollout.Sent}
	if err == nil {
		return a
	}
	status, answered := statusOf(err)
	a.Message = oneLine(status.Message)
	switch {
	case !answered:
		a.Result, a.Message, a.Err = rollout.Errored, "", err
	case status.Code == http.StatusNotFound, status.Code == http.StatusConflict:
		a.Result = rollout.Gone
	case status.Code == http.StatusTooManyRequests:
		a.Result = rollout.Refused
		a.Message = strings.TrimSpace(a.Message + " " + c.budget(ctx, d.Pod.Name.Namespace, status))
	case strings.Contains(status.Message, severalBudgets):
		a.Result = rollout.Refused
	default: // also 401 and 403: a missing right is no disruption budget
		a.Result, a.Err = rollout.Errored, err
	}
	return a
}

// severalBudgets is part of what the API server answers, as an internal error,
// if more than one disruption budget covers a pod.
const severalBudgets = "more than one PodDisruptionBudget"

// budgetInCause finds the budget in a cause such as
// The disruption budget web needs 3 healthy pods and has 3 currently.
var budgetInCause = regexp.MustCompile(`^The disruption budget (\S+) `)

// budget says which disruption budget refused, and whether it ever will not.
func (c *Cluster) budget(ctx context.Context, namespace string, status metav1.Status) string {
	if status.Details == nil {
		return ""
	}
	for _, cause := range status.Details.Causes {
		if cause.Type != policyv1.DisruptionBudgetCause {
			continue
		}
		message := oneLine(cause.Message)
		if name := budgetInCause.FindStringSubmatch(cause.Message); name != nil {
			message = strings.TrimSpace(message + " " + c.budgetHint(ctx, namespace, name[1]))
		}
		return message
	}
	return ""
}

// budgetHint says why a budget can never allow the eviction of a DaemonSet's
// pod. It says nothing if the budget can, or cannot be read.
func (c *Cluster) budgetHint(ctx context.Context, namespace, name string) string {
	var budget *policyv1.PodDisruptionBudget
	err := c.once(ctx, func(ctx context.Context) (err error) {
		budget, err = c.typed.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		c.opts.Log.Debug("disruption budget not read", "object", "PodDisruptionBudget/"+namespace+"/"+name, "err", err)
		return ""
	}
	if budget.Spec.MaxUnavailable == nil && (budget.Spec.MinAvailable == nil || budget.Spec.MinAvailable.Type == intstr.Int) {
		return ""
	}
	return "It can never allow this: DaemonSets have no scale, so only a number in minAvailable works for their pods."
}
