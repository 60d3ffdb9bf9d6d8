// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"lamplighter.dev/inventory"
)

const (
	// NoteAnnotation is the instant at which a process that may not act has left
	// word for the one that may.
	NoteAnnotation = "lamplighter.dev/noted-at"
	// RequestAnnotation is the instant at which somebody wanted a pass, and an
	// answer to that.
	RequestAnnotation = "lamplighter.dev/requested-at"
)

// Note changes nothing that the state says, and yet wakes who watches it.
func (s *Store) Note(ctx context.Context, at time.Time) error {
	return s.annotate(ctx, NoteAnnotation, func(string) time.Time { return at })
}

// Request wakes who watches the state, and leaves a request for them. It answers
// with the request's name: an instant later than that of any request before it,
// whatever clocks those went by.
func (s *Store) Request(ctx context.Context, at time.Time) (time.Time, error) {
	var name time.Time
	err := s.annotate(ctx, RequestAnnotation, func(before string) time.Time {
		name = at.UTC()
		if last := instant(before); !name.After(last) {
			name = last.Add(1)
		}
		return name
	})
	return name, err
}

// Requested is the newest request that Watch has seen; zero if there is none.
func (s *Store) Requested() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requested
}

// noteRequest remembers the request that a ledger carries.
func (s *Store) noteRequest(cm *corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested = instant(cm.Annotations[RequestAnnotation])
}

// annotate sets an annotation of the ledger to an instant, given what it was.
func (s *Store) annotate(ctx context.Context, key string, at func(before string) time.Time) error {
	name := ledgerName(s.instance)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cm, err := s.configMaps.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&cm.ObjectMeta, key, at(cm.Annotations[key]).UTC().Format(time.RFC3339Nano))
		_, err = s.configMaps.Update(ctx, cm, metav1.UpdateOptions{FieldManager: inventory.FieldManager})
		return err
	})
	if err != nil {
		return fmt.Errorf("leave a note in %s: %w", s.describe(name), err)
	}
	return nil
}

// instant reads an annotation; what is none is the zero time.
func instant(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}
