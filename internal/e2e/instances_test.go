// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/inventory"
)

func TestInstancesLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	one := newWorld(t)
	other := *one
	other.instance.Name = one.instance.Name + "-2"
	other.repo = one.git.Repo(t, "other")

	one.start(t, named("one"))
	one.commit(t, "both of one", one.fleet(map[string]string{"a.yaml": configMap("a", "one"), "shared.yaml": configMap("shared", "one")}))
	one.owns(t, one.in("ConfigMap", "a"), one.in("ConfigMap", "shared"))
	one.says(t, "shared", "one") // before the other makes it

	other.start(t, named("other"))
	other.commit(t, "both of other", other.fleet(map[string]string{"b.yaml": configMap("b", "other"), "shared.yaml": configMap("shared", "other")}))
	note := other.noteOn(t, one.in("ConfigMap", "shared"), inventory.NotOwned)
	if note.Action != string(inventory.Refuse) || !strings.Contains(note.Message, one.instance.ID()) {
		t.Errorf("note: got %+v, want a refusal that names %s", note, one.instance.ID())
	}
	other.owns(t, one.in("ConfigMap", "b"))
	one.says(t, "shared", "one")

	// What the second never owned does not go when it leaves the second's Git.
	other.inForce(t, other.commit(t, "without shared", other.fleet(map[string]string{"b.yaml": configMap("b", "other")})))
	one.polled(t, 4)
	one.says(t, "shared", "one")

	one.commit(t, "without shared", one.fleet(map[string]string{"a.yaml": configMap("a", "one")}))
	one.owns(t, one.in("ConfigMap", "a"))
	_, err := one.Client.CoreV1().ConfigMaps(one.namespace).Get(t.Context(), "shared", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the owner has not pruned it: %v", err)
	}
	other.owns(t, one.in("ConfigMap", "b"))
	one.says(t, "b", "other")
}
