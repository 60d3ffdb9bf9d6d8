// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
)

// A commit that drops most of what there is, or all, deletes nothing until somebody
// names it, whoever looks and however often. Then it goes, and only then.
func TestMassDeletionWaitsUntilItsCommitIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		files[name+".yaml"] = configMap(name, "1")
	}
	all := []string{w.in("ConfigMap", "a"), w.in("ConfigMap", "b"), w.in("ConfigMap", "c"), w.in("ConfigMap", "d")}
	w.commit(t, "everything", w.fleet(files))
	first := w.start(t)
	w.owns(t, all...)
	w.says(t, "d", "1")

	window := far().window("night")
	for _, step := range []struct {
		message string
		files   map[string]string
		reason  inventory.Reason
		left    []string
		others  []string
	}{
		{"one is left", map[string]string{"a.yaml": files["a.yaml"]}, inventory.MassDelete, all[:1], all[1:]},
		{"none is left", map[string]string{"window.yaml": window}, inventory.EmptyRender, nil, all[:1]},
	} {
		hash := w.commit(t, step.message, w.fleet(step.files))
		w.inForce(t, hash)
		for _, object := range step.others {
			w.noteOn(t, object, step.reason)
		}
		w.polled(t, 2)
		first.stop(t)
		second := w.start(t) // it has seen nothing of what there was before
		for _, object := range step.others {
			w.noteOn(t, object, step.reason)
		}
		w.polled(t, 2)
		for _, object := range step.others {
			if live := w.configMap(t, object[len(object)-1:]); live.DeletionTimestamp != nil {
				t.Errorf("%s: %s is deleted", step.message, object)
			}
		}
		second.stop(t)
		wrong := w.start(t, func(c *agent.Config) { c.AllowPrune = "0000000" })
		w.polled(t, 2)
		wrong.stop(t)
		w.owns(t, append(step.left, step.others...)...)
		first = w.start(t, func(c *agent.Config) { c.AllowPrune = hash[:7] })
		w.owns(t, step.left...)
	}
}
