// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cli-utils/pkg/object"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
)

// many are the numbers from one to another as ConfigMaps.
func many(from, to int) inventory.Set {
	var ids []inventory.ID
	for i := from; i < to; i++ {
		ids = append(ids, inventory.ID{
			GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "some-team-production", Name: fmt.Sprintf("settings-of-something-%05d", i),
		})
	}
	return inventory.NewSet(ids...)
}

// pagesOf are the ConfigMaps that hold the inventory, by name.
func pagesOf(t *testing.T, instance inventory.Instance) []corev1.ConfigMap {
	t.Helper()
	list, err := testkit.Sandbox(t).Client.CoreV1().ConfigMaps(instance.Namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: inventory.InventoryLabel + "=" + instance.ID(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func save(t *testing.T, s *store.Store, owned inventory.Set) {
	t.Helper()
	if err := s.Save(t.Context(), store.State{Inventory: owned}); err != nil {
		t.Fatal(err)
	}
}

func wantOwned(t *testing.T, instance inventory.Instance, want inventory.Set) {
	t.Helper()
	got, err := store.New(testkit.Sandbox(t).Client, instance).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !got.Inventory.Equal(want) {
		t.Errorf("%d objects, want %d", got.Inventory.Len(), want.Len())
	}
}

// 20,000 objects are on pages far below the API server's limit, each of which
// cli-utils can read, and together they are everything.
func TestLargeInventoryHasPages(t *testing.T) {
	s, c, instance := fixture(t)
	owned := many(0, 20000)
	save(t, s, owned)
	wantOwned(t, instance, owned)

	var names []string
	var ids []inventory.ID
	for _, cm := range pagesOf(t, instance) {
		size := 0
		for key, value := range cm.Data {
			size += len(key) + len(value)
		}
		if size >= 900<<10 {
			t.Errorf("%s has %d bytes", cm.Name, size)
		}
		page, err := object.FromStringMap(cm.Data)
		if err != nil {
			t.Fatal(err)
		}
		names, ids = append(names, cm.Name), append(ids, page...)
	}
	if want := []string{"lamplighter-inventory", "lamplighter-inventory-2", "lamplighter-inventory-3"}; !cmp.Equal(names, want) {
		t.Errorf("pages: got %v, want %v", names, want)
	}
	if len(ids) != owned.Len() || !inventory.NewSet(ids...).Equal(owned) {
		t.Errorf("the pages have %d entries, want each of %d once", len(ids), owned.Len())
	}

	before := c.writes.Load()
	save(t, s, owned)
	if n := c.writes.Load() - before; n > 0 {
		t.Errorf("%d writes though nothing changed", n)
	}
	more := owned.With(many(20000, 20001).IDs()...)
	save(t, s, more)
	if n := c.writes.Load() - before; n > 2 {
		t.Errorf("%d writes for one more object, want its page and the first", n)
	}
	wantOwned(t, instance, more)
	save(t, s, many(0, 3))
	wantOwned(t, instance, many(0, 3))
	if n := len(pagesOf(t, instance)); n != 3 {
		t.Errorf("%d pages, want the 3 that there were, almost empty", n)
	}
}

func TestSizeIsBounded(t *testing.T) {
	s, c, _ := fixture(t)
	err := s.Save(t.Context(), store.State{Inventory: many(0, 100000)})
	if err == nil || !strings.Contains(err.Error(), "split the instance") {
		t.Errorf("100,000 objects: got %v, want the limit and what to do", err)
	}
	if n := c.writes.Load(); n > 0 {
		t.Errorf("%d writes before the limit was found", n)
	}
}

// What was on a page that is gone would be forgotten.
func TestMissingPageIsAnError(t *testing.T) {
	for page, suffix := range []string{"", "-2", "-3"} {
		t.Run("lamplighter-inventory"+suffix, func(t *testing.T) {
			s, _, instance := fixture(t)
			save(t, s, many(0, 20000))
			pages := pagesOf(t, instance)
			configMaps := testkit.Sandbox(t).Client.CoreV1().ConfigMaps(instance.Namespace)
			if err := configMaps.Delete(t.Context(), pages[page].Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := s.Load(t.Context())
			want := fmt.Sprintf("ConfigMap/%s/%s is missing", instance.Namespace, pages[page].Name)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("load: got %v, want %s", err, want)
			}
			if err := s.Save(t.Context(), store.State{Inventory: many(0, 19999)}); err == nil {
				t.Error("a save went over an inventory that is not whole")
			}

			// The way out that the error names.
			empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pages[page].Name, Labels: map[string]string{inventory.InventoryLabel: instance.ID()}}}
			if _, err := configMaps.Create(t.Context(), empty, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			state, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, want := state.Inventory.Len(), 20000-len(pages[page].Data); got != want {
				t.Errorf("%d objects, want %d: all but what was on the page", got, want)
			}
			save(t, s, many(0, 20000))
			wantOwned(t, instance, many(0, 20000))
		})
	}
}

// It is one even if somebody has taken off the word of how many there are.
func TestMissingPageIsAnErrorWhateverTheFirstSays(t *testing.T) {
	for _, lost := range []string{"lamplighter-inventory", "lamplighter-inventory-2", "lamplighter-inventory-3"} {
		t.Run(lost, func(t *testing.T) {
			s, _, instance := fixture(t)
			save(t, s, many(0, 20000))
			configMaps := testkit.Sandbox(t).Client.CoreV1().ConfigMaps(instance.Namespace)
			first := pagesOf(t, instance)[0]
			first.Annotations = nil
			if _, err := configMaps.Update(t.Context(), &first, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := configMaps.Delete(t.Context(), lost, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := s.Load(t.Context())
			if want := fmt.Sprintf("ConfigMap/%s/%s is missing", instance.Namespace, lost); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("load: got %v, want %s", err, want)
			}
		})
	}
}

// Of two who write different pages the second is told.
func TestWritersOfDifferentPages(t *testing.T) {
	s, _, instance := fixture(t)
	save(t, s, many(0, 20000))
	one, other := store.New(testkit.Sandbox(t).Client, instance), store.New(testkit.Sandbox(t).Client, instance)
	for _, s := range []*store.Store{one, other} {
		if _, err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pages := pagesOf(t, instance)
	without := func(page int) inventory.Set {
		ids, err := object.FromStringMap(pages[page].Data)
		if err != nil {
			t.Fatal(err)
		}
		return many(0, 20000).Without(ids[0])
	}
	save(t, one, without(1))
	if err := other.Save(t.Context(), store.State{Inventory: without(2)}); !errors.Is(err, store.ErrStale) {
		t.Errorf("got %v, want %v", err, store.ErrStale)
	}
}

// Wherever a save is cut, what was owned before it and after it is not lost, and
// the next save ends well.
func TestSaveIsCutAtAnyPage(t *testing.T) {
	kit := testkit.Sandbox(t)
	for _, way := range []struct {
		name          string
		before, after inventory.Set
		writes        int
	}{
		{"grows", many(0, 10), many(5, 20000), 3},
		{"begins", inventory.Set{}, many(0, 20000), 4},
		{"shrinks", many(0, 20000), many(7000, 7010), 3},
		{"moves", many(0, 20000), many(10000, 29000), 2},
	} {
		for n := 1; n <= way.writes; n++ {
			for _, unsent := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, write %d, unsent %v", way.name, n, unsent), func(t *testing.T) {
					t.Parallel()
					instance := inventory.Instance{Namespace: kit.Namespace(t), Name: "lamplighter"}
					if way.before.Len() > 0 {
						save(t, store.New(kit.Client, instance), way.before)
					}
					cut := &cutter{left: int64(n), unsent: unsent}
					s := store.New(cut.client(t, kit), instance)
					if _, err := s.Load(t.Context()); err != nil {
						t.Fatal(err)
					}
					if err := s.Save(t.Context(), store.State{Inventory: way.after}); err == nil {
						t.Fatal("nothing was cut")
					}

					next := store.New(kit.Client, instance)
					state, err := next.Load(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					lost := slices.DeleteFunc(way.before.IDs(), func(id inventory.ID) bool {
						return !way.after.Contains(id) || state.Inventory.Contains(id)
					})
					if len(lost) > 0 {
						t.Errorf("%d objects are lost, such as %s", len(lost), inventory.Format(lost[0]))
					}
					save(t, next, way.after)
					wantOwned(t, instance, way.after)
				})
			}
		}
	}
}

// Whoever dies while an inventory of several pages is deleted leaves one that can
// be read, and deleted.
func TestDeletionIsCutAtAnyPage(t *testing.T) {
	kit := testkit.Sandbox(t)
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
			t.Parallel()
			instance := inventory.Instance{Namespace: kit.Namespace(t), Name: "lamplighter"}
			save(t, store.New(kit.Client, instance), many(0, 20000))
			cut := &cutter{left: int64(n)}
			dying := store.New(cut.client(t, kit), instance)
			if _, err := dying.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := dying.Delete(t.Context()); err == nil {
				t.Fatal("nothing was cut")
			}
			next := store.New(kit.Client, instance)
			if _, err := next.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := next.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := pagesOf(t, instance); len(left) > 0 {
				t.Errorf("%d pages are left", len(left))
			}
		})
	}
}

// cutter is a connection that breaks with a write, done or not.
type cutter struct {
	next   http.RoundTripper
	left   int64
	unsent bool
	writes atomic.Int64
}

var errCut = errors.New("cut")

func (c *cutter) client(t *testing.T, kit *testkit.Cluster) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(kit.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { c.next = next; return c })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return c.next.RoundTrip(r)
	}
	if n := c.writes.Add(1); n > c.left || n == c.left && c.unsent {
		return nil, errCut
	}
	response, err := c.next.RoundTrip(r)
	if err == nil && c.writes.Load() == c.left {
		return nil, errors.Join(errCut, response.Body.Close())
	}
	return response, err
}
