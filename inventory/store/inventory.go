// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/object"

	"lamplighter.dev/inventory"
)

// An inventory has as many pages as it needs, each a ConfigMap in cli-utils'
// format: <instance>-inventory, <instance>-inventory-2 and so on.
const (
	// pageBytes is how much a page holds. The API server keeps with each key who
	// wrote it, which is as much again, and etcd takes 1.5 MiB at once.
	pageBytes = 512 << 10
	// maxPages is how many pages there can be: the agent's Role names each.
	maxPages = 8
)

// Annotations of the first page, if there are more: how many, which the ledger says
// too, should somebody take it off, and how often they were written, so that of two
// who write different pages one is told.
const (
	pagesAnnotation  = "lamplighter.dev/inventory-pages"
	writesAnnotation = "lamplighter.dev/inventory-writes"
)

func pageName(instance inventory.Instance, n int) string {
	name := instance.Name + "-inventory"
	if n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name
}

// loadInventory reads all pages into seen, of which there are as many as the first
// one says, and noted at least. One that is missing is an error: what it held would
// be forgotten.
func (s *Store) loadInventory(ctx context.Context, seen map[string]*corev1.ConfigMap, noted int) (inventory.Set, error) {
	var (
		ids     []inventory.ID
		missing []string
		count   = noted
		found   = 0
	)
	for n := 1; n <= maxPages; n++ {
		name := pageName(s.instance, n)
		cm, err := s.configMaps.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			if n > count {
				break // one more may have been written before the first said so
			}
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return inventory.Set{}, fmt.Errorf("read %s: %w", s.describe(name), err)
		}
		members, err := s.members(cm)
		if err != nil {
			return inventory.Set{}, fmt.Errorf("%s: %w", s.describe(name), err)
		}
		seen[name], ids, found = cm, append(ids, members...), found+1
		if n == 1 {
			said, err := pageCount(cm)
			if err != nil {
				return inventory.Set{}, fmt.Errorf("%s: %w", s.describe(name), err)
			}
			count = max(count, said)
		}
	}
	if len(missing) > 0 && (found > 0 || noted > 1) {
		return inventory.Set{}, fmt.Errorf("%s is missing, a page of the inventory: restore it, or make an empty one with the label %s=%s",
			s.describe(missing[0]), inventory.InventoryLabel, s.instance.ID())
	}
	return inventory.NewSet(ids...), nil
}

func pageCount(cm *corev1.ConfigMap) (int, error) {
	text, ok := cm.Annotations[pagesAnnotation]
	if !ok {
		return 1, nil
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 || count > maxPages {
		return 0, fmt.Errorf("annotation %s is %q, not a number from 1 to %d", pagesAnnotation, text, maxPages)
	}
	return count, nil
}

// members reads cli-utils' format. The values, in which cli-utils may keep a
// status, do not matter.
func (s *Store) members(cm *corev1.ConfigMap) ([]inventory.ID, error) {
	if owner := cm.Labels[inventory.InventoryLabel]; owner != s.instance.ID() {
		return nil, fmt.Errorf("label %s is %q, not %q: it is not the inventory of this instance", inventory.InventoryLabel, owner, s.instance.ID())
	}
	ids := make([]inventory.ID, 0, len(cm.Data))
	for key := range cm.Data {
		id, err := object.ParseObjMetadata(key)
		if err != nil {
			return nil, fmt.Errorf("key %s: not namespace_name_group_kind", key)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// saveInventory writes the pages that have changed, the first one last: it says
// how many there are. If there is none yet, it comes first too, so that no page
// is ever without it. Whatever stops a save, what was on a page before and is
// owned still is on one.
func (s *Store) saveInventory(ctx context.Context, owned inventory.Set) error {
	if s.saved != nil && s.saved.Equal(owned) {
		return nil
	}
	s.saved = nil
	pages, err := s.layOut(owned)
	if err != nil {
		return fmt.Errorf("%s: %w", s.describe(pageName(s.instance, 1)), err)
	}
	if len(pages) > 1 && s.seen[pageName(s.instance, 1)] == nil {
		alone := pages[0]
		alone.annotations = nil
		if err := s.write(ctx, pageName(s.instance, 1), alone); err != nil {
			return err
		}
	}
	next := s.nextWrite()
	for n := 2; n <= len(pages); n++ {
		name, want := pageName(s.instance, n), pages[n-1]
		if s.differs(name, want) {
			pages[0].annotations[writesAnnotation] = next
		}
		if err := s.write(ctx, name, want); err != nil {
			return err
		}
	}
	if err := s.write(ctx, pageName(s.instance, 1), pages[0]); err != nil {
		return err
	}
	s.saved = &owned
	return nil
}

// nextWrite is another value of writesAnnotation than the present one.
func (s *Store) nextWrite() string {
	first := s.seen[pageName(s.instance, 1)]
	if first == nil {
		return "1"
	}
	writes, err := strconv.Atoi(first.Annotations[writesAnnotation])
	if err != nil { // there is none yet, or somebody has edited it
		return "1"
	}
	return strconv.Itoa(writes + 1)
}

// layOut spreads an inventory over pages. An entry stays on the page that it is
// on, so that no page needs what another has lost already; a new one goes to the
// first page with room.
func (s *Store) layOut(owned inventory.Set) ([]content, error) {
	var pages []content
	placed := map[inventory.ID]bool{}
	for n := 1; n <= maxPages; n++ {
		cm := s.seen[pageName(s.instance, n)]
		if cm == nil && n > 1 {
			break
		}
		p := s.emptyPage()
		if cm != nil {
			members, err := s.members(cm)
			if err != nil {
				return nil, err
			}
			for _, id := range members {
				if owned.Contains(id) && !placed[id] {
					p.data[id.String()], placed[id] = cm.Data[id.String()], true
				}
			}
		}
		pages = append(pages, p)
	}
	sizes := make([]int, len(pages))
	for i, p := range pages {
		sizes[i] = p.size()
	}
	for _, id := range owned.IDs() {
		if placed[id] {
			continue
		}
		if err := inventory.Storable(id); err != nil {
			return nil, fmt.Errorf("%s: %w", inventory.Format(id), err)
		}
		key := id.String()
		n := slices.IndexFunc(sizes, func(size int) bool { return size+len(key) <= pageBytes })
		if n < 0 {
			if len(pages) == maxPages {
				return nil, fmt.Errorf("%d objects do not fit into the %d ConfigMaps of an inventory: split the instance", owned.Len(), maxPages)
			}
			n, pages, sizes = len(pages), append(pages, s.emptyPage()), append(sizes, 0)
		}
		pages[n].data[key] = ""
		sizes[n] += len(key)
	}
	if len(pages) > 1 {
		pages[0].annotations = map[string]string{pagesAnnotation: strconv.Itoa(len(pages))}
	}
	return pages, nil
}

func (s *Store) emptyPage() content {
	return content{
		labels: map[string]string{inventory.InventoryLabel: s.instance.ID(), managedByLabel: inventory.FieldManager},
		data:   map[string]string{},
	}
}

// differs reports whether a ConfigMap would be written.
func (s *Store) differs(name string, want content) bool {
	seen := s.seen[name]
	return seen == nil && !want.empty() || seen != nil && !want.equals(seen)
}

// containsAll reports whether m has every entry of want.
func containsAll(m, want map[string]string) bool {
	for key, value := range want {
		if got, ok := m[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// merged is m with every entry of want.
func merged(m, want map[string]string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}
