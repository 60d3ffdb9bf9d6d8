// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/internal/testkit"
)

func TestNothingIsAskedWhileNothingChangesAndDriftIsCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := &requests{}
	agent := w.start(t, sent.of)
	w.commit(t, "everything", w.fleet(map[string]string{
		"agent.yaml": daemonSet("1", "v1"), "a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"),
		"rules.yaml": rules{}.yaml(w),
	}))
	w.settled(t, "1")
	w.rested(t)

	var before int
	for terms := 0; terms != agent.log.terms(); { // a new term reads all there is
		w.polled(t, 2)
		terms, before = agent.log.terms(), len(sent.all())
		w.polled(t, 4)
	}
	for _, request := range sent.all()[before:] {
		// A watch ends by itself after some minutes, and is then begun anew.
		if !strings.HasPrefix(request, "GET ") || !strings.Contains(request, "watch=true") {
			t.Errorf("sent though nothing has changed: %s", request)
		}
	}

	w.edit(t, "a", `{"data":{"key":"edited"}}`)
	w.says(t, "a", "1")
	uid := w.configMap(t, "b").UID
	if err := w.Client.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.says(t, "b", "1")
	if w.configMap(t, "b").UID == uid {
		t.Error("ConfigMap b was not deleted")
	}
	if given := w.orders(t); len(given) > 0 {
		t.Errorf("pods were deleted: %v", given)
	}
}

// edit changes a ConfigMap as kubectl edit does.
func (w *world) edit(t *testing.T, name, patch string) {
	t.Helper()
	_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
}

// says waits until a ConfigMap says what Git says.
func (w *world) says(t *testing.T, name, want string) {
	t.Helper()
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		cm, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := cm.Data["key"]; got != want {
			return fmt.Errorf("ConfigMap %s says %q, not %q", name, got, want)
		}
		return nil
	})
}
