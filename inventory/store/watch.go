// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Watch calls foreign whenever somebody else has written the ledger since this
// store loaded or saved it last, as a person does who resumes a policy. It
// blocks until ctx is done.
func (s *Store) Watch(ctx context.Context, foreign func()) {
	tell := func(obj any) {
		cm, ok := obj.(*corev1.ConfigMap)
		if !ok {
			return
		}
		s.noteRequest(cm)
		if s.isForeign(cm) {
			foreign()
		}
	}
	name := ledgerName(s.instance)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(s.client, "configmaps", s.instance.Namespace, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}),
		ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    tell,
			UpdateFunc: func(_, obj any) { tell(obj) },
			DeleteFunc: func(any) { foreign() },
		},
	})
	informer.RunWithContext(ctx)
}

// isForeign says that a ConfigMap is not one that was loaded or saved here, and
// is not older than that either.
func (s *Store) isForeign(cm *corev1.ConfigMap) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen[cm.Name]
	if seen == nil || seen.UID != cm.UID {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(cm.ResourceVersion, seen.ResourceVersion)
	return err != nil || order > 0
}
