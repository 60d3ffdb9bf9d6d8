// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
)

// strangers are the owners of pods of whose changes nobody is told. The zero value has
// none.
type strangers struct {
	owners atomic.Pointer[map[types.UID]bool]
}

// Ignore makes what becomes of the pods of these DaemonSets no reason to look again;
// "" is for pods of none. It takes the place of what was ignored before. Snapshot
// has them all the same.
func (c *Cluster) Ignore(owners []types.UID) {
	next := make(map[types.UID]bool, len(owners))
	for _, owner := range owners {
		next[owner] = true
	}
	before := c.strangers.owners.Swap(&next)
	if before == nil {
		return
	}
	for owner := range *before {
		if !next[owner] {
			c.notify() // of what may have been missed
			return
		}
	}
}

func (s *strangers) pod(p health.Pod) bool {
	owners := s.owners.Load()
	return owners != nil && (*owners)[p.Owner]
}
