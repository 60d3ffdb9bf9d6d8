// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// moment is something that an agent does, after which it is killed at once.
type moment string

const (
	templateApplied moment = "template applied"
	ledgerWritten   moment = "ledger written"
	podDeleted      moment = "pod deleted"
	podReady        moment = "new pod ready"

	inventoryWritten moment = "inventory written"
	objectAdded      moment = "object added"
	objectChanged    moment = "object changed"
	objectDeleted    moment = "object deleted"
)

// Ten agents are killed in one rollout, each at the next thing that is seen to
// happen. A pod takes longer to be ready than an agent to start: one that
// forgot what its predecessor took down would be seen to take down more.
func TestKilledAgentsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := func(version string) map[string]string {
		return w.fleet(map[string]string{
			"agent.yaml": daemonSet(version, "slow-2s"),
			"rules.yaml": rules{}.yaml(w),
		})
	}
	w.commit(t, "version 1", files("1"))
	agent := w.spawn(t, "--listen", "")
	w.settled(t, "1")

	moments := []moment{
		templateApplied, ledgerWritten, podDeleted, ledgerWritten, podReady,
		podDeleted, ledgerWritten, podReady, ledgerWritten, podDeleted,
	}
	for i, m := range moments {
		next := w.next(t, m)
		if i == 0 {
			w.commit(t, "version 2", files("2"))
		} else {
			agent = w.spawn(t, "--listen", "")
		}
		next()
		agent.kill(t)
		w.dropLease(t)
	}
	if done := len(w.countByNode(t)); done == nodes {
		t.Errorf("all %d nodes were visited before the last kill", done)
	}
	w.spawn(t, "--listen", "")
	w.settled(t, "2")

	w.onceEach(t)
	w.withinBudget(t, 1)
	if d := w.daemonSetNow(t, "agent"); d.Generation != 2 {
		t.Errorf("generation: got %d, want 2: one template after another", d.Generation)
	}
	if got := visited(w.stateNow(t).Ledger); len(got) != nodes {
		t.Errorf("the ledger has %d finished visits, not %d: %v", len(got), nodes, got)
	}
}

// dropLease does what time does to the Lease of a process that is dead.
func (w *world) dropLease(t *testing.T) {
	t.Helper()
	err := w.Client.CoordinationV1().Leases(w.namespace).Delete(t.Context(), w.instance.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// next watches for a moment from now on. What it returns waits for it.
func (w *world) next(t *testing.T, m moment) (wait func()) {
	t.Helper()
	going := map[types.UID]bool{}
	watching, err := w.watch(t.Context(), m, going)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		defer watching.Stop()
		testkit.Eventually(t, patience, func(ctx context.Context) error {
			for {
				select {
				case e, ok := <-watching.ResultChan():
					if !ok {
						t.Fatalf("%s: the watch broke off", m)
					}
					if m.isIn(e, going) {
						return nil
					}
				case <-ctx.Done():
					return fmt.Errorf("waited for %s", m)
				}
			}
		})
	}
}

// watch tells what changes from now on, in the part of the cluster in which a
// moment shows. It notes the pods that are on their way out already.
func (w *world) watch(ctx context.Context, m moment, going map[types.UID]bool) (watch.Interface, error) {
	from := metav1.ListOptions{}
	switch m {
	case templateApplied:
		api := w.Client.AppsV1().DaemonSets(w.namespace)
		list, err := api.List(ctx, from)
		if err != nil {
			return nil, err
		}
		from.ResourceVersion = list.ResourceVersion
		return api.Watch(ctx, from)
	case ledgerWritten, inventoryWritten, objectAdded, objectChanged, objectDeleted:
		api := w.Client.CoreV1().ConfigMaps(w.namespace)
		switch m {
		case ledgerWritten:
			from.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.instance.Name+"-ledger").String()
		case inventoryWritten:
			from.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.instance.Name+"-inventory").String()
		default:
			from.LabelSelector = inventory.InstanceLabel + "=" + w.instance.Name
		}
		list, err := api.List(ctx, from)
		if err != nil {
			return nil, err
		}
		from.ResourceVersion = list.ResourceVersion
		return api.Watch(ctx, from)
	default:
		api := w.Client.CoreV1().Pods(w.namespace)
		list, err := api.List(ctx, from)
		if err != nil {
			return nil, err
		}
		for _, p := range list.Items {
			going[p.UID] = p.DeletionTimestamp != nil
		}
		from.ResourceVersion = list.ResourceVersion
		return api.Watch(ctx, from)
	}
}

// isIn says that a change is the moment.
func (m moment) isIn(e watch.Event, going map[types.UID]bool) bool {
	switch o := e.Object.(type) {
	case *appsv1.DaemonSet:
		return m == templateApplied && o.Generation > 1
	case *corev1.ConfigMap:
		return m == ledgerWritten || m == inventoryWritten ||
			m == objectAdded && e.Type == watch.Added || m == objectChanged && e.Type == watch.Modified || m == objectDeleted && e.Type == watch.Deleted
	case *corev1.Pod:
		return m == podDeleted && o.DeletionTimestamp != nil && !going[o.UID] ||
			m == podReady && o.DeletionTimestamp == nil && isReady(*o)
	default:
		return false
	}
}
