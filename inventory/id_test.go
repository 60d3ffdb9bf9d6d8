// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/cli-utils/pkg/object"

	"lamplighter.dev/inventory"
)

func TestFormat(t *testing.T) {
	for want, id := range map[string]inventory.ID{
		"DaemonSet/ns/a":              {GroupKind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "ns", Name: "a"},
		"Namespace/a":                 {GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: "a"},
		"Lamp.example.com/ns/a":       {GroupKind: schema.GroupKind{Group: "example.com", Kind: "Lamp"}, Namespace: "ns", Name: "a"},
		"DaemonSet.example.com/ns/a":  {GroupKind: schema.GroupKind{Group: "example.com", Kind: "DaemonSet"}, Namespace: "ns", Name: "a"},
		"Event.events.k8s.io/ns/a":    {GroupKind: schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}, Namespace: "ns", Name: "a"},
		"ClusterRole/system:metrics":  {GroupKind: schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, Name: "system:metrics"},
		"Unknown./a":                  {GroupKind: schema.GroupKind{Kind: "Unknown"}, Name: "a"},
		"ConfigMap/ns/with.dots-in-1": {GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "ns", Name: "with.dots-in-1"},
	} {
		if got := inventory.Format(id); got != want {
			t.Errorf("format: got %q, want %q", got, want)
		}
		if got, err := inventory.ParseFormat(want); err != nil || got != id {
			t.Errorf("parse %q: got %v %v, want %v", want, got, err, id)
		}
	}
	for _, bad := range []string{"", "a", "Lamp/ns/a", "ConfigMap/", "/ns/a", "ConfigMap//a", "ConfigMap/ns/a/b", ".example.com/a"} {
		if id, err := inventory.ParseFormat(bad); err == nil {
			t.Errorf("parse %q: got %v, want an error", bad, id)
		}
	}
}

// What can be stored is read back by cli-utils as the same object.
func TestStorable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9]([-a-z0-9:_.]{0,30}[a-z0-9])?`).Draw(t, "name")
		kind := rapid.SampledFrom([]schema.GroupKind{{Kind: "ConfigMap"}, {Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}}).Draw(t, "kind")
		id := inventory.ID{GroupKind: kind, Name: name}
		back, err := object.ParseObjMetadata(id.String())
		if same := err == nil && back == id; same != (inventory.Storable(id) == nil) {
			t.Fatalf("%q: storable %v, reads back as %v %v", name, inventory.Storable(id), back, err)
		}
	})
	long := inventory.ID{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: strings.Repeat("n", 63), Name: strings.Repeat("a", 200)}
	if inventory.Storable(long) == nil {
		t.Error("a key of more than 253 characters is storable")
	}
}

func TestInstanceIDs(t *testing.T) {
	ids := map[string]bool{}
	for _, i := range []inventory.Instance{
		{Namespace: "a", Name: "b"}, {Namespace: "b", Name: "a"}, {Namespace: "a", Name: "c"},
		{Namespace: strings.Repeat("n", 63), Name: "a"}, {Namespace: strings.Repeat("n", 63), Name: "b"},
	} {
		id := i.ID()
		if ids[id] || len(id) > 63 {
			t.Errorf("%v: ID %q is taken or too long for a label", i, id)
		}
		ids[id] = true
	}
}

func TestSet(t *testing.T) {
	a, b, c := parse(t, "ConfigMap/ns/a"), parse(t, "ConfigMap/ns/b"), parse(t, "DaemonSet/ns/a")
	s := inventory.NewSet(c, a, a)
	if got, want := s.IDs(), []inventory.ID{a, c}; !slices.Equal(got, want) {
		t.Errorf("IDs: got %v, want %v", got, want)
	}
	grown := s.With(b, c)
	if s.Len() != 2 || grown.Len() != 3 || !grown.Contains(b) || s.Contains(b) {
		t.Errorf("with: got %v and %v", s.IDs(), grown.IDs())
	}
	if shrunk := grown.Without(b); !shrunk.Equal(s) || grown.Len() != 3 {
		t.Errorf("without: got %v and %v", shrunk.IDs(), grown.IDs())
	}
	ids := s.IDs()
	ids[0] = b
	if s.Contains(b) || !s.Contains(a) {
		t.Error("a set changed with the slice it gave")
	}
}
