// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/sha256"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"lamplighter.dev/inventory"
)

// known is what was found out about an object when it was last compared or
// applied. It holds for as long as neither side moves.
type known struct {
	hash            string // of what was compared or applied
	uid             types.UID
	resourceVersion string
	generation      int64
	digest          [sha256.Size]byte
	// clean says that no former manager holds fields of it.
	clean bool
	// change is the result of the comparison; its kind is None after an apply.
	change inventory.Change
	// until is when an error in the change no longer counts: it may come from
	// something else than the two objects.
	until time.Time
}

// errorHolds is how long the error of a comparison counts.
const errorHolds = 30 * time.Second

// holds reports whether the live object is still as it was. A watch that has
// not caught up with our own write shows an older object: that is no change.
func (k known) holds(l *live, id inventory.ID) bool {
	if k.uid != l.uid {
		return false
	}
	if k.resourceVersion == l.resourceVersion {
		return true
	}
	if order, err := resourceversion.CompareResourceVersion(l.resourceVersion, k.resourceVersion); err == nil && order < 0 {
		return true
	}
	return countsGenerations(id.GroupKind, l.generation) && k.generation == l.generation && k.digest == l.digest
}

// drifted reports whether a live object that moved, and whose content from Git
// did not, has moved away from something that was right.
func (k known) drifted(hash string) bool {
	right := k.change.Err == nil && k.change.Kind == inventory.None
	return k.hash == hash && (right || k.change.Drifted)
}

// drifted reports whether the live object, if it is not as Git says, was: it says
// so itself, or this process has seen it. What is gone says nothing.
func (c *Cluster) drifted(s subject) bool {
	if s.live != nil && s.live.carries(s.object) {
		return true
	}
	k, ok := c.knowledge(s.id)
	return ok && (s.live == nil || k.uid == s.live.uid) && k.drifted(s.hash)
}

func (c *Cluster) knowledge(id inventory.ID) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[id]
	return k, ok
}

// learn remembers what k says of an object, as the API server answered it.
func (c *Cluster) learn(id inventory.ID, k known, answer metav1.Object) error {
	l, err := liveOf(answer)
	if err != nil {
		return err
	}
	k.uid, k.resourceVersion, k.generation, k.digest = l.uid, l.resourceVersion, l.generation, l.digest
	k.change.Object = nil // the caller's; known by its hash
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[id] = k
	delete(c.glimpses, id)
	delete(c.rehearsals, id)
	return nil
}

func (c *Cluster) forget(id inventory.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
	delete(c.glimpses, id)
}
