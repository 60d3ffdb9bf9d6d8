// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

// ErrStale says that the state has changed since it was loaded: nothing that
// was decided from it may be done.
var ErrStale = errors.New("the state changed since it was loaded")

// State is what an instance remembers. The zero State is that of an instance
// that has never run.
type State struct {
	Inventory inventory.Set
	Ledger    rollout.Ledger
	// Record is a JSON value that readers of the state may want, such as the
	// commit in force. The store only keeps it. Empty means none.
	Record json.RawMessage
}

// Store loads and saves the state of one instance. It may be used by several
// goroutines.
type Store struct {
	client     rest.Interface
	configMaps corev1client.ConfigMapInterface
	instance   inventory.Instance

	mu sync.Mutex
	// seen holds the ConfigMaps as they were last loaded or saved, by name.
	seen map[string]*corev1.ConfigMap
	// saved is the inventory that seen holds, nil before it has been saved once.
	saved *inventory.Set
	// unread is why the last Load has failed, nil if it has not.
	unread error
	// requested is the newest request that Watch has seen.
	requested time.Time
}

// New returns the store of an instance.
func New(client kubernetes.Interface, instance inventory.Instance) *Store {
	return &Store{
		client:     client.CoreV1().RESTClient(),
		configMaps: client.CoreV1().ConfigMaps(instance.Namespace),
		instance:   instance,
		seen:       map[string]*corev1.ConfigMap{},
	}
}

// Load reads the state. ConfigMaps that do not exist are an empty state. What
// could not be read is not saved over.
func (s *Store) Load(ctx context.Context) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, err := s.load(ctx)
	s.unread = err
	return state, err
}

func (s *Store) load(ctx context.Context) (State, error) {
	var state State
	seen := map[string]*corev1.ConfigMap{}
	pages := 1
	name := ledgerName(s.instance)
	cm, err := s.configMaps.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return State{}, fmt.Errorf("read %s: %w", s.describe(name), err)
	default:
		if err := decodeLedger(cm, &state); err != nil {
			return State{}, fmt.Errorf("%s: %w", s.describe(name), err)
		}
		if pages, err = pageCount(cm); err != nil {
			return State{}, fmt.Errorf("%s: %w", s.describe(name), err)
		}
		seen[name] = cm
	}
	if state.Inventory, err = s.loadInventory(ctx, seen, pages); err != nil {
		return State{}, err
	}
	s.seen, s.saved = seen, nil
	return state, nil
}

// Save writes the ConfigMaps whose content differs from what was last loaded or
// saved. It writes the inventory first, and nothing more if that fails: an
// object that is tracked too early does no harm, while a visit on record that
// never began holds a slot.
func (s *Store) Save(ctx context.Context, state State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unread != nil {
		return fmt.Errorf("nothing is saved over what could not be read: %w", s.unread)
	}
	if err := s.saveInventory(ctx, state.Inventory); err != nil {
		return err
	}
	name := ledgerName(s.instance)
	want, err := encodeLedger(state)
	if err != nil {
		return fmt.Errorf("%s: %w", s.describe(name), err)
	}
	if first := s.seen[pageName(s.instance, 1)]; first != nil && first.Annotations[pagesAnnotation] != "" {
		want.annotations = map[string]string{pagesAnnotation: first.Annotations[pagesAnnotation]}
	}
	return s.write(ctx, name, want)
}

// write creates or updates one ConfigMap, unless it already is as wanted.
func (s *Store) write(ctx context.Context, name string, want content) error {
	if err := s.send(ctx, name, want); err != nil {
		return fmt.Errorf("write %s: %w", s.describe(name), err)
	}
	return nil
}

func (s *Store) send(ctx context.Context, name string, want content) error {
	if !s.differs(name, want) {
		return nil
	}
	seen := s.seen[name]
	var (
		written *corev1.ConfigMap
		err     error
	)
	if seen == nil {
		written, err = s.configMaps.Create(ctx, want.onto(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.instance.Namespace},
		}), metav1.CreateOptions{FieldManager: inventory.FieldManager})
	} else {
		written, err = s.configMaps.Update(ctx, want.onto(seen.DeepCopy()), metav1.UpdateOptions{FieldManager: inventory.FieldManager})
	}
	switch {
	case err == nil:
		s.seen[name] = written
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), seen != nil && apierrors.IsNotFound(err):
		return ErrStale
	case apierrors.IsNotFound(err):
		return fmt.Errorf("namespace %s does not exist", s.instance.Namespace)
	}
	return err
}

func (s *Store) describe(name string) string {
	return "ConfigMap/" + s.instance.Namespace + "/" + name
}

// content is what a ConfigMap is to hold.
type content struct {
	labels      map[string]string
	annotations map[string]string
	data        map[string]string
	binary      map[string][]byte
}

func (c content) empty() bool {
	return len(c.data) == 0 && len(c.binary) == 0 && len(c.annotations) == 0
}

func (c content) equals(cm *corev1.ConfigMap) bool {
	return containsAll(cm.Labels, c.labels) && containsAll(cm.Annotations, c.annotations) &&
		equality.Semantic.DeepEqual(c.data, cm.Data) &&
		equality.Semantic.DeepEqual(c.binary, cm.BinaryData)
}

func (c content) onto(cm *corev1.ConfigMap) *corev1.ConfigMap {
	cm.Data, cm.BinaryData = c.data, c.binary
	cm.Labels = merged(cm.Labels, c.labels)
	if len(c.annotations) > 0 {
		cm.Annotations = merged(cm.Annotations, c.annotations)
	}
	return cm
}
