// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
)

// interner lets the pods of one DaemonSet share what is equal in all of them.
// With a hundred thousand pods that is most of the memory they take.
type interner struct {
	mu         sync.Mutex
	references map[types.UID][]inventory.ID // by DaemonSet, as its last pod had them
	needs      map[types.UID]*health.Needs  // the same
}

func newInterner() *interner {
	return &interner{references: map[types.UID][]inventory.ID{}, needs: map[types.UID]*health.Needs{}}
}

func (i *interner) reducePod(obj any) (health.Pod, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return health.Pod{}, fmt.Errorf("unexpected %T", obj)
	}
	pod := health.PodOf(p)
	pod.Name.Namespace = share(pod.Name.Namespace)
	pod.Owner = types.UID(share(string(pod.Owner)))
	pod.Hash = share(pod.Hash)
	pod.Node = share(pod.Node)
	pod.Phase = corev1.PodPhase(share(string(pod.Phase)))
	pod.References = i.shared(pod.Owner, pod.References)
	pod.Needs = i.sharedNeeds(pod.Owner, pod.Needs)
	return pod, nil
}

// sharedNeeds returns needs that other pods of the owner may have too.
func (i *interner) sharedNeeds(owner types.UID, needs *health.Needs) *health.Needs {
	i.mu.Lock()
	defer i.mu.Unlock()
	if last := i.needs[owner]; last != nil && needs != nil && last.Equal(*needs) {
		return last
	}
	i.needs[owner] = needs
	return needs
}

// shared returns a slice that other pods of the owner may hold too.
func (i *interner) shared(owner types.UID, refs []inventory.ID) []inventory.ID {
	i.mu.Lock()
	defer i.mu.Unlock()
	if last := i.references[owner]; slices.Equal(last, refs) {
		return last
	}
	for n := range refs {
		refs[n].Namespace, refs[n].Name = share(refs[n].Namespace), share(refs[n].Name)
	}
	i.references[owner] = slices.Clip(refs)
	return i.references[owner]
}

func share(s string) string { return unique.Make(s).Value() }
