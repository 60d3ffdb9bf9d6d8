// SPDX-License-Identifier: Apache-2.0

package cluster

// PodOf is the pod of a dry run.
var PodOf = podOf

// Remembered counts what is remembered of single objects.
func (c *Cluster) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known) + len(c.glimpses) + len(c.rehearsals) + len(c.cargoes)
}
