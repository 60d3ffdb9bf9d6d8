// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

// The bare name of a DaemonSet means the only one of that name, as it does for why.
func TestHistoryOfABareName(t *testing.T) {
	var state reconcile.State
	for _, owned := range []types.NamespacedName{{Namespace: "kube-system", Name: "cni"}, {Namespace: "blue", Name: "agent"}, {Namespace: "green", Name: "agent"}} {
		state.Inventory = state.Inventory.With(inventory.ID{GroupKind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: owned.Namespace, Name: owned.Name})
	}
	for _, test := range []struct {
		name, want types.NamespacedName
		hint       string
	}{
		{types.NamespacedName{Name: "cni"}, types.NamespacedName{Namespace: "kube-system", Name: "cni"}, ""},
		{types.NamespacedName{Namespace: "gone", Name: "cni"}, types.NamespacedName{Namespace: "gone", Name: "cni"}, ""}, // it may be on record
		{types.NamespacedName{Name: "agent"}, types.NamespacedName{Name: "agent"}, "did you mean blue/agent or green/agent?"},
		{types.NamespacedName{Name: "storage"}, types.NamespacedName{Name: "storage"}, "lamplighter status lists them; is it another --context?"},
	} {
		got, err := onRecord(state, test.name)
		hinted, _ := errors.AsType[hintError](suggest(err))
		if got != test.want || hinted.hint != test.hint {
			t.Errorf("%s: got %s, %q, want %s, %q", test.name, got, hinted.hint, test.want, test.hint)
		}
	}
}
