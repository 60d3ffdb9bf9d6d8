// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// A generated ConfigMap has another name for each content. Old pods need the
// old one at their next restart, and so does the live template.
func TestGeneratedConfigStaysWhileAPodMountsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	files := func(version, value string, night span) map[string]string {
		return map[string]string{
			"agent.yaml":         configMounted(version, "slow-500ms"),
			"rules.yaml":         rules{windows: "night", maxUnavailable: "4", more: night.window("night")}.yaml(w),
			"kustomization.yaml": w.kustomization([]string{"agent.yaml", "rules.yaml"}, "configMapGenerator: [{name: config, literals: [key="+value+"]}]\n"),
		}
	}
	w.commit(t, "first config", files("1", "first", far()))
	w.settled(t, "1")
	old := mounted(t, w)
	gone := w.deletionOf(t, old)

	w.commit(t, "second config", files("2", "second", far()))
	note := w.noteOn(t, "ConfigMap/"+w.namespace+"/"+old, inventory.InUse)
	if !strings.Contains(note.Message, "DaemonSet/"+w.namespace+"/agent") && !strings.Contains(note.Message, "pod ") {
		t.Errorf("the note does not say what uses it: %+v", note)
	}
	w.polled(t, 2)
	if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), old, metav1.GetOptions{}); err != nil {
		t.Errorf("pruned while the template waits for its window: %v", err)
	}

	w.commit(t, "open tonight", files("2", "second", span{second(0), second(time.Hour)}))
	w.settled(t, "2")
	pruned := gone(t)
	for _, e := range w.pods.Events(t) {
		if e.Type == watch.Deleted && uses(e.Pod, old) && newer(t, e.Pod.ResourceVersion, pruned) {
			t.Errorf("%s was pruned while pod %s still mounted it", old, e.Pod.Name)
		}
	}
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		for _, id := range state.Inventory.IDs() {
			if id.Name == old {
				return fmt.Errorf("%s is still in the inventory", old)
			}
		}
		return nil
	})
	w.onceEach(t)
}

// mounted is the name of the ConfigMap that the live template mounts.
func mounted(t *testing.T, w *world) string {
	t.Helper()
	return w.daemonSetNow(t, "agent").Spec.Template.Spec.Volumes[0].ConfigMap.Name
}

func uses(p *corev1.Pod, configMap string) bool {
	for _, v := range p.Spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == configMap {
			return true
		}
	}
	return false
}

// deletionOf watches a ConfigMap from now on. What it returns waits for the
// ConfigMap's deletion and answers with its resource version.
func (w *world) deletionOf(t *testing.T, name string) func(*testing.T) string {
	t.Helper()
	changes, err := w.Client.CoreV1().ConfigMaps(w.namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changes.Stop)
	version := ""
	return func(t *testing.T) string {
		t.Helper()
		testkit.Eventually(t, patience, func(ctx context.Context) error {
			for version == "" {
				select {
				case e, ok := <-changes.ResultChan():
					if !ok {
						t.Fatalf("the watch of ConfigMap %s broke off", name)
					}
					if cm, is := e.Object.(*corev1.ConfigMap); is && e.Type == watch.Deleted {
						version = cm.ResourceVersion
					}
				case <-ctx.Done():
					return fmt.Errorf("ConfigMap %s was not deleted", name)
				}
			}
			return nil
		})
		return version
	}
}

// newer says that one resource version came after another.
func newer(t *testing.T, a, b string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return order > 0
}
