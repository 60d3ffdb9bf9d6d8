// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Delete removes the ConfigMaps that were loaded or saved last, and says which:
// the instance is no more. It refuses with [ErrStale] if somebody else has
// written since. What the instance owns goes last, so that whoever dies half-way
// is found to have begun.
func (s *Store) Delete(ctx context.Context) (deleted []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = nil
	if err := s.unnumber(ctx); err != nil {
		return nil, err
	}
	names := []string{ledgerName(s.instance)}
	for n := maxPages; n >= 1; n-- {
		names = append(names, pageName(s.instance, n))
	}
	for _, name := range names {
		cm := s.seen[name]
		if cm == nil {
			continue
		}
		err := s.configMaps.Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &cm.UID, ResourceVersion: &cm.ResourceVersion},
		})
		switch {
		case apierrors.IsConflict(err):
			return deleted, ErrStale
		case err != nil && !apierrors.IsNotFound(err):
			return deleted, fmt.Errorf("delete %s: %w", s.describe(name), err)
		}
		delete(s.seen, name)
		deleted = append(deleted, s.describe(name))
	}
	return deleted, nil
}

// unnumber makes the first page say that there are no more, so that those can go
// one after another and none is missed.
func (s *Store) unnumber(ctx context.Context) error {
	name := pageName(s.instance, 1)
	cm := s.seen[name]
	if cm == nil || cm.Annotations[pagesAnnotation] == "" {
		return nil
	}
	return s.write(ctx, name, content{
		annotations: map[string]string{pagesAnnotation: "1"}, data: cm.Data, binary: cm.BinaryData,
	})
}

// Kept are the ConfigMaps that were loaded or saved last, sorted; none for an
// instance that has never run.
func (s *Store) Kept() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(s.seen)) {
		kept = append(kept, s.describe(name))
	}
	return kept
}
