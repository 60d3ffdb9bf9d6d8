// SPDX-License-Identifier: Apache-2.0

package cluster

import "lamplighter.dev/inventory"

// PodOf is the pod of a dry run.
var PodOf = podOf

// Remembered counts what is remembered of single objects.
func (c *Cluster) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known) + len(c.glimpses) + len(c.rehearsals) + len(c.cargoes)
}

// Told is the version of an object that the watch of its kind told last, "" if
// there is none. It is false while nobody watches the kind.
func (c *Cluster) Told(id inventory.ID) (resourceVersion string, watched bool) {
	c.mu.Lock()
	kind, watched := c.kinds[id.GroupKind]
	c.mu.Unlock()
	if !watched {
		return "", false
	}
	for _, namespace := range []string{id.Namespace, ""} {
		if l, ok := kind.get(namespace, id.Name); ok {
			return l.resourceVersion, true
		}
	}
	return "", true
}
