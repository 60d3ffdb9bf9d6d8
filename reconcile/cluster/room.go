// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// cached is the resource version of whatever the API server has in its cache.
const cached = "0"

// Room finds out whether a pod of a revision fits on a node in the place of the
// one that is there. Pods of other owners are not watched, so those of the node
// are listed; the API server answers from its cache.
func (c *Cluster) Room(ctx context.Context, q rollout.Question) rollout.Answer {
	d, ok := c.liveAt(q)
	if !ok {
		return rollout.Answer{Reply: rollout.Unknown, Message: "the DaemonSet has another template by now"}
	}
	room := health.Room{Replaced: func(p *corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(p)
		return owner != nil && owner.UID == d.UID
	}}
	err := c.once(ctx, func(ctx context.Context) error {
		node, err := c.typed.CoreV1().Nodes().Get(ctx, q.Node, metav1.GetOptions{ResourceVersion: cached})
		if err != nil {
			return err
		}
		pods, err := c.typed.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", q.Node).String(), ResourceVersion: cached,
		})
		if err != nil {
			return err
		}
		room.Allocatable, room.Pods = node.Status.Allocatable, pods.Items
		return nil
	})
	if err != nil {
		return rollout.Answer{Reply: rollout.Unknown, Message: oneLine(err.Error())}
	}
	if lacks := room.Lacks(&d.Spec.Template.Spec); lacks != "" {
		return rollout.Answer{Reply: rollout.No, Message: lacks}
	}
	return rollout.Answer{Reply: rollout.Yes}
}
