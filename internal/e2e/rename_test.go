// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"lamplighter.dev/reconcile/agent"
)

// The inventory is the instance's, not the folder's: a folder of another name
// with the same in it changes nothing.
func TestInventoryOutlivesTheNameOfThePath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := func(folder string, files map[string]string) map[string]string {
		moved := map[string]string{}
		for name, text := range w.fleet(files) {
			moved[folder+"/"+name] = text
		}
		return moved
	}
	from := func(folder string) func(*agent.Config) {
		return func(c *agent.Config) { c.Path = folder }
	}
	files := map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")}
	w.commit(t, "old name", in("clusters/old", files))
	first := w.start(t, from("clusters/old"))
	w.owns(t, w.in("ConfigMap", "a"), w.in("ConfigMap", "b"))
	w.says(t, "b", "1")
	before := w.configMap(t, "a")
	first.stop(t)

	delete(files, "b.yaml")
	hash := w.commit(t, "new name, less in it", in("clusters/new", files))
	w.start(t, from("clusters/new"))
	w.inForce(t, hash)
	w.owns(t, w.in("ConfigMap", "a")) // the old name's are still known, and pruned
	if got := w.configMap(t, "a"); got.UID != before.UID || got.ResourceVersion != before.ResourceVersion {
		t.Error("ConfigMap a was written though it is the same under the new name")
	}
}
