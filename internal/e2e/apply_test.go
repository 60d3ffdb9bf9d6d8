// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

func TestClusterFollowsGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stranger := w.strangers(t)
	w.start(t)
	account := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: agent}\n"
	role := fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\n", w.instance.Name)
	w.commit(t, "everything", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"), "account.yaml": account, "role.yaml": role,
		"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
		"rules.yaml": rules{}.yaml(w),
	}))
	w.settled(t, "1")
	w.owns(t, "ClusterRole/"+w.instance.Name, w.in("ConfigMap", "a"), w.in("ConfigMap", "b"), w.in("ConfigMap", "c"),
		w.in("DaemonSet", "agent"), w.in("ServiceAccount", "agent"))
	kept := w.configMap(t, "c")

	next := w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"), "account.yaml": account,
		"a.yaml": configMap("a", "2"), "c.yaml": configMap("c", "1"), "d.yaml": configMap("d", "1"),
		"rules.yaml": rules{}.yaml(w),
	})
	w.inForce(t, w.commit(t, "less, more, other", next))
	w.owns(t, w.in("ConfigMap", "a"), w.in("ConfigMap", "c"), w.in("ConfigMap", "d"), w.in("DaemonSet", "agent"), w.in("ServiceAccount", "agent"))

	if got := w.configMap(t, "a").Data["key"]; got != "2" {
		t.Errorf("ConfigMap a: got %q, want what Git says now", got)
	}
	if got := w.configMap(t, "c").ResourceVersion; got != kept.ResourceVersion {
		t.Errorf("ConfigMap c was written though Git says the same of it")
	}
	_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "b", metav1.GetOptions{})
	_, roleErr := w.Client.RbacV1().ClusterRoles().Get(t.Context(), w.instance.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(roleErr) {
		t.Errorf("what left Git is still there: %v, %v", err, roleErr)
	}
	if got := w.configMap(t, stranger.Name); got.ResourceVersion != stranger.ResourceVersion {
		t.Errorf("an object that is not in Git was written: %+v", got)
	}
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted though no template changed: %v", given)
	}
}

// strangers makes a ConfigMap that is nobody's business.
func (w *world) strangers(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Data: map[string]string{"key": "mine"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

func (w *world) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

// in names an object of the test's namespace.
func (w *world) in(kind, name string) string { return kind + "/" + w.namespace + "/" + name }

// owns waits until the inventory holds exactly these objects.
func (w *world) owns(t *testing.T, want ...string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		var got []string
		for _, id := range state.Inventory.IDs() {
			got = append(got, inventory.Format(id))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the inventory holds %v, want %v", got, want)
		}
		return nil
	})
}
