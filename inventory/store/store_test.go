// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cli-utils/pkg/object"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/inventory/store/storetest"
	"lamplighter.dev/reconcile/rollout"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m, testkit.Options{Nodes: 1})) }

// counter counts the requests that change something.
type counter struct {
	next   http.RoundTripper
	writes atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

func TestConformance(t *testing.T) {
	kit := testkit.Sandbox(t)
	storetest.Run(t, func(t *testing.T) func() storetest.Store {
		instance := inventory.Instance{Namespace: kit.Namespace(t), Name: "lamplighter"}
		return func() storetest.Store { return store.New(kit.Client, instance) }
	})
}

// fixture is a store with a namespace of its own, whose writes are counted.
func fixture(t *testing.T) (*store.Store, *counter, inventory.Instance) {
	t.Helper()
	kit := testkit.Sandbox(t)
	c := &counter{}
	config := rest.CopyConfig(kit.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { c.next = next; return c })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	instance := inventory.Instance{Namespace: kit.Namespace(t), Name: "lamplighter"}
	return store.New(client, instance), c, instance
}

func TestSaveWritesOnlyWhatChanged(t *testing.T) {
	s, c, _ := fixture(t)
	state := storetest.Example()
	for _, step := range []struct {
		name   string
		change func()
		want   int64
	}{
		{"everything is new", func() {}, 2},
		{"nothing", func() {}, 0},
		{"the ledger", func() { state.Ledger.Visits[0].Node = "node-2" }, 1},
		{"the record", func() { state.Record = []byte(`{}`) }, 1},
		{"the inventory", func() { state.Inventory = state.Inventory.Without(state.Inventory.IDs()[0]) }, 1},
		{"nothing again", func() {}, 0},
	} {
		step.change()
		before := c.writes.Load()
		if err := s.Save(t.Context(), state); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := c.writes.Load() - before; got != step.want {
			t.Errorf("%s changed: got %d writes, want %d", step.name, got, step.want)
		}
	}
}

func TestInventoryIsReadByCliUtils(t *testing.T) {
	s, _, instance := fixture(t)
	state := storetest.Example()
	if err := s.Save(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	kit := testkit.Sandbox(t)
	cm, err := kit.Client.CoreV1().ConfigMaps(instance.Namespace).Get(t.Context(), "lamplighter-inventory", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := object.FromStringMap(cm.Data)
	if err != nil {
		t.Fatal(err)
	}
	if got := inventory.NewSet(ids...); !got.Equal(state.Inventory) {
		t.Errorf("read by cli-utils: got %v, want %v", got.IDs(), state.Inventory.IDs())
	}
	if got := cm.Labels["cli-utils.sigs.k8s.io/inventory-id"]; got != instance.ID() {
		t.Errorf("ID: got %q, want %q", got, instance.ID())
	}
}

// What cannot be read is an error that says where, and stays as it is.
func TestUnreadableStateIsNotOverwritten(t *testing.T) {
	for _, tc := range []struct{ configMap, patch, want string }{
		{"lamplighter-inventory", `{"data":{"nonsense":""}}`, "key nonsense"},
		{"lamplighter-inventory", `{"metadata":{"labels":{"cli-utils.sigs.k8s.io/inventory-id":"somebody-else"}}}`, "somebody-else"},
		{"lamplighter-ledger", `{"data":{"ledger.json":"{"}}`, "key ledger.json"},
		{"lamplighter-ledger", `{"data":{"record.json":"{"}}`, "key record.json"},
		{"lamplighter-ledger", `{"data":{"ledger.json":null},"binaryData":{"ledger.json.gz":"AAAA"}}`, "key ledger.json"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			s, _, instance := fixture(t)
			if err := s.Save(t.Context(), storetest.Example()); err != nil {
				t.Fatal(err)
			}
			configMaps := testkit.Sandbox(t).Client.CoreV1().ConfigMaps(instance.Namespace)
			broken, err := configMaps.Patch(t.Context(), tc.configMap, types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Load(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "ConfigMap/"+instance.Namespace+"/"+tc.configMap) {
				t.Errorf("load: got %v, want an error with %q and the ConfigMap", err, tc.want)
			}
			next := storetest.Example()
			next.Inventory, next.Ledger = inventory.Set{}, rollout.Ledger{Pauses: []rollout.Pause{{Policy: "cni"}}}
			if err := s.Save(t.Context(), next); err == nil {
				t.Error("a save went over what could not be read")
			}
			now, err := configMaps.Get(t.Context(), tc.configMap, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if now.ResourceVersion != broken.ResourceVersion {
				t.Error("the unreadable ConfigMap was written")
			}
		})
	}
}

// People may want to read a ledger, and the longer one is the more it costs to write.
func TestLedgerIsLegibleUntilItIsLong(t *testing.T) {
	s, _, instance := fixture(t)
	state := storetest.Example()
	for _, step := range []struct {
		finished int
		legible  bool
	}{{0, true}, {100, true}, {500, false}, {10, true}} {
		state.Ledger.Finished = nil
		for i := range step.finished {
			visit := state.Ledger.Visits[0]
			visit.Node = fmt.Sprintf("node-%05d", i)
			state.Ledger.Finished = append(state.Ledger.Finished, visit)
		}
		if err := s.Save(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		cm, err := testkit.Sandbox(t).Client.CoreV1().ConfigMaps(instance.Namespace).Get(t.Context(), "lamplighter-ledger", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(cm.Data["ledger.json"], `"node": "node-1"`); got != step.legible {
			t.Errorf("%d finished visits: legible %t, want %t", step.finished, got, step.legible)
		}
		if size := cm.Size(); size > 64<<10 {
			t.Errorf("%d finished visits take %d bytes", step.finished, size)
		}
		got, err := store.New(testkit.Sandbox(t).Client, instance).Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Ledger.Finished) != step.finished {
			t.Errorf("read: got %d finished visits, want %d", len(got.Ledger.Finished), step.finished)
		}
	}
}

func TestLargeLedgerIsCompressed(t *testing.T) {
	s, _, instance := fixture(t)
	state := storetest.Example()
	for i := range 6500 {
		visit := state.Ledger.Visits[0]
		visit.Node = fmt.Sprintf("node-%05d", i)
		state.Ledger.Finished = append(state.Ledger.Finished, visit)
	}
	if err := s.Save(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	other := store.New(testkit.Sandbox(t).Client, instance)
	got, err := other.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Ledger.Finished) != 6500 || string(got.Record) != string(state.Record) {
		t.Errorf("got %d visits and record %s", len(got.Ledger.Finished), got.Record)
	}
	if err := other.Save(t.Context(), got); err != nil {
		t.Errorf("save of what was loaded: %v", err)
	}
}

func TestMissingNamespaceIsNamed(t *testing.T) {
	s := store.New(testkit.Sandbox(t).Client, inventory.Instance{Namespace: "nowhere", Name: "lamplighter"})
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatalf("load: %v", err)
	}
	err := s.Save(t.Context(), storetest.Example())
	if err == nil || !strings.Contains(err.Error(), "namespace nowhere does not exist") {
		t.Errorf("save: got %v, want the namespace named", err)
	}
}
