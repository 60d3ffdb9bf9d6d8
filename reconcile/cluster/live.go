// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

// live is what is kept of the metadata of an object in the cluster.
type live struct {
	namespace, name string
	uid             types.UID
	resourceVersion string
	generation      int64
	deleting        bool
	finalizers      []string
	dependent       bool // somebody made it for another object
	// honoured are the annotations that we act on.
	honoured map[string]string
	// digest is of all metadata that people set: labels, annotations,
	// finalizers, owners.
	digest [sha256.Size]byte
}

func (l *live) owner() string { return l.honoured[inventory.OwnerAnnotation] }

// carries reports whether what Git says of an object is what was applied to it
// last, by its own word.
func (l *live) carries(object metav1.Object) bool {
	digest := l.honoured[inventory.AppliedAnnotation]
	return digest != "" && digest == object.GetAnnotations()[inventory.AppliedAnnotation]
}

// honouredAnnotations are those kept of a live object.
var honouredAnnotations = []string{
	inventory.OwnerAnnotation, inventory.DependsOnAnnotation,
	inventory.DeletionAnnotation, inventory.OnRemoveAnnotation, inventory.AppliedAnnotation,
}

// countedAnnotations are those in which controllers count generations: they say
// nothing that the generation does not.
var countedAnnotations = []string{appsv1.DeprecatedTemplateGeneration, "deployment.kubernetes.io/revision"}

// liveOf reduces the metadata of an object.
func liveOf(m metav1.Object) (*live, error) {
	l := &live{
		namespace:       m.GetNamespace(),
		name:            m.GetName(),
		uid:             m.GetUID(),
		resourceVersion: m.GetResourceVersion(),
		generation:      m.GetGeneration(),
		deleting:        m.GetDeletionTimestamp() != nil,
		finalizers:      m.GetFinalizers(),
		dependent:       len(m.GetOwnerReferences()) > 0,
	}
	for _, name := range honouredAnnotations {
		if value, ok := m.GetAnnotations()[name]; ok {
			if l.honoured == nil {
				l.honoured = map[string]string{}
			}
			l.honoured[name] = value
		}
	}
	set := maps.Clone(m.GetAnnotations())
	for _, name := range countedAnnotations {
		delete(set, name)
	}
	text, err := json.Marshal([]any{m.GetLabels(), set, m.GetFinalizers(), m.GetOwnerReferences()})
	if err != nil {
		return nil, fmt.Errorf("metadata of %s: %w", m.GetName(), err)
	}
	l.digest = sha256.Sum256(text)
	return l, nil
}

func reduceLive(obj any) (*live, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	return liveOf(m)
}

// sameLive ignores what a controller writes into a status.
func sameLive(kind schema.GroupKind) func(a, b *live) bool {
	return func(a, b *live) bool {
		if !countsGenerations(kind, b.generation) {
			return a.resourceVersion == b.resourceVersion
		}
		return a.generation == b.generation && a.deleting == b.deleting && a.digest == b.digest
	}
}

// countsGenerations reports whether every change of an object of the kind, its
// metadata and status apart, gives it a new generation. Some built-in kinds
// carry a generation that never moves.
func countsGenerations(kind schema.GroupKind, generation int64) bool {
	if generation == 0 {
		return false
	}
	switch kind.Group {
	case "apps", "batch", "policy", "apiextensions.k8s.io", "networking.k8s.io":
		return true
	}
	custom := strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io")
	return custom
}
