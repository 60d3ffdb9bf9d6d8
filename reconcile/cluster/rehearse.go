// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// rehearsal is what a dry run has said of an object that is new or has new
// content. A good word holds until one side is another; see errorHolds for a
// bad one.
type rehearsal struct {
	hash   string
	uid    types.UID // of the live object; empty if there was none
	change inventory.Change
	until  time.Time
}

// holds reports whether the API server need not be asked again.
func (r rehearsal) holds(c *Cluster, hash string, uid types.UID) bool {
	good := r.change.Err == nil && r.change.Kind != inventory.Replace
	return r.hash == hash && r.uid == uid && (good || !c.over(r.until))
}

// rehearse asks whether the API server would take an object that is to be sent
// for certain, and puts what it says into the change.
func (c *Cluster) rehearse(ctx context.Context, s subject, change inventory.Change) (inventory.Change, error) {
	mayReplace := s.live != nil && recreates(s.object)
	if c.opts.Partial && !mayReplace || s.set.kinds[s.id.GroupKind] {
		return change, nil
	}
	var uid types.UID
	if s.live != nil {
		uid = s.live.uid
	}
	if r, ok := c.rehearsed(s.id); ok && r.holds(c, s.hash, uid) {
		change.Err, change.Kind, change.Immutable = r.change.Err, r.change.Kind, r.change.Immutable
		return change, nil
	}
	if err := c.dryApply(ctx, s.target, uid); err != nil && !s.set.inconclusive(err) {
		gone := notServed(err)
		if change, err = c.refusedUpdate(ctx, s.target, s.live, change, err); err != nil || gone {
			c.rediscover() // the kind may come back at any time: nothing to remember
			return change, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rehearsals[s.id] = rehearsal{hash: s.hash, uid: uid, change: change, until: c.deadline(errorHolds)}
	return change, nil
}

func (c *Cluster) rehearsed(id inventory.ID) (rehearsal, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.rehearsals[id]
	return r, ok
}

// rendered are the objects of one commit, as far as others of them may need
// them to exist.
type rendered struct {
	kinds map[schema.GroupKind]bool // that they define
	names map[string]bool
}

func (c *Cluster) renderedOf(objects []*unstructured.Unstructured) *rendered {
	r := &rendered{kinds: map[schema.GroupKind]bool{}, names: make(map[string]bool, len(objects))}
	r.names[c.opts.Instance.Namespace] = true // it is made before the first pass
	for _, obj := range objects {
		r.names[obj.GetName()] = true
		if kind := inventory.Defines(obj); !kind.Empty() {
			r.kinds[kind] = true
		}
	}
	return r
}

// inconclusive reports whether an answer to a dry run says nothing of the apply
// itself: an admission webhook has side effects and was not asked, or something
// is missing that the same commit brings, such as a namespace or a Role.
func (r *rendered) inconclusive(err error) bool {
	if noDryRun(err) {
		return true
	}
	status, ok := statusOf(err)
	return ok && apierrors.IsNotFound(err) && status.Details != nil && r.names[status.Details.Name]
}
