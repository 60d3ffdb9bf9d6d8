// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
)

// Template reads the pod template that a DaemonSet had at a revision. It is an
// error if the API server does not keep that revision any more.
func (c *Cluster) Template(ctx context.Context, daemonSet types.NamespacedName, revision string) (map[string]any, error) {
	d, ok := c.feeds.daemonSets.get(daemonSet.Namespace, daemonSet.Name)
	if !ok {
		return nil, fmt.Errorf("DaemonSet %s does not exist", daemonSet)
	}
	now := health.DaemonSetOf(d, c.feeds.revisions.values())
	kept, ok := now.RevisionAt(revision)
	if !ok {
		return nil, fmt.Errorf("revision %s of %s is gone", revision, daemonSet)
	}
	var r *appsv1.ControllerRevision
	err := c.try(ctx, func(ctx context.Context) (err error) {
		r, err = c.typed.AppsV1().ControllerRevisions(kept.Name.Namespace).Get(ctx, kept.Name.Name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read revision %s of %s: %w", revision, daemonSet, err)
	}
	if is := health.RevisionOf(r); is.Owner != now.UID || is.Hash != revision {
		return nil, fmt.Errorf("revision %s of %s is gone", revision, daemonSet)
	}
	return health.TemplateOf(r)
}
