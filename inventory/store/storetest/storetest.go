// SPDX-License-Identifier: Apache-2.0

// Package storetest is the conformance suite of stores: what a pass relies on,
// whatever keeps the state.
package storetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Store is what is tested.
type Store interface {
	Load(ctx context.Context) (store.State, error)
	Save(ctx context.Context, state store.State) error
	Delete(ctx context.Context) ([]string, error)
	Kept() []string
}

// Run tests stores. Each call of open returns another process's view of the
// same state, which is empty when fresh is called.
func Run(t *testing.T, fresh func(t *testing.T) (open func() Store)) {
	for name, test := range map[string]func(*testing.T, func() Store){
		"nothing saved is the zero state":            zeroState,
		"what is saved is loaded":                    roundTrip,
		"a save after a save needs no load":          saveAgain,
		"the second of two writers is told":          secondWriter,
		"a writer who never loaded is told":          blindWriter,
		"a stale writer goes on after a load":        reload,
		"parts can become empty again":               emptied,
		"a save of what is there says nothing":       unchanged,
		"the ledger and the inventory can differ":    partial,
		"what is deleted is as if it had never been": deleted,
		"a stale writer deletes nothing":             staleDelete,
		"many DaemonSets obey one long calendar":     longCalendar,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

// Example is a state in which every part holds something.
func Example() store.State {
	at := time.Date(2026, 3, 2, 22, 0, 0, 0, time.UTC)
	return store.State{
		Inventory: inventory.NewSet(
			inventory.ID{GroupKind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Namespace: "kube-system", Name: "cni"},
			inventory.ID{GroupKind: schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, Name: "system:cni"},
			inventory.ID{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: "agents"},
		),
		Ledger: rollout.Ledger{
			Visits: []rollout.Visit{{
				Policy: "cni", Node: "node-1", Started: at,
				Steps: []rollout.Step{{DaemonSet: "kube-system/cni", From: "a", To: "b", Evicted: at}},
			}},
			Pauses:   []rollout.Pause{{Policy: "cni", Reason: "INC-42", By: "ada", Since: at}},
			Proceeds: []rollout.Proceed{{Policy: "csi", Reason: "CVE-1", By: "ada", Since: at, Until: at.Add(time.Hour)}},
			Governed: map[string]rollout.Governance{"kube-system/cni": {Policy: "cni"}},
			Waves: []rollout.SettledWave{{
				Policy: "cni", Wave: "canary", Nodes: "canary=true", Revisions: map[string]string{"kube-system/cni": "b"}, Settled: at, Soaked: true,
			}},
		},
		Record: json.RawMessage(`{"commit":"9f2c1e7"}`),
	}
}

func zeroState(t *testing.T, open func() Store) {
	wantLoaded(t, open(), store.State{})
}

func roundTrip(t *testing.T, open func() Store) {
	s := open()
	wantLoaded(t, s, store.State{})
	save(t, s, Example())
	wantLoaded(t, s, Example())
	wantLoaded(t, open(), Example())
}

func saveAgain(t *testing.T, open func() Store) {
	s := open()
	wantLoaded(t, s, store.State{})
	save(t, s, Example())
	next := Example()
	next.Ledger.Visits = nil
	next.Inventory = next.Inventory.Without(next.Inventory.IDs()[0])
	save(t, s, next)
	wantLoaded(t, open(), next)
}

func secondWriter(t *testing.T, open func() Store) {
	a, b := open(), open()
	wantLoaded(t, a, store.State{})
	wantLoaded(t, b, store.State{})
	save(t, a, Example())
	other := Example()
	other.Ledger.Visits[0].Node = "node-2"
	wantStale(t, b, other)
	wantLoaded(t, open(), Example())
}

func blindWriter(t *testing.T, open func() Store) {
	save(t, open(), Example())
	wantStale(t, open(), Example())
}

func reload(t *testing.T, open func() Store) {
	a, b := open(), open()
	wantLoaded(t, b, store.State{})
	wantLoaded(t, a, store.State{})
	save(t, a, Example())
	wantStale(t, b, Example())
	wantLoaded(t, b, Example())
	next := Example()
	next.Record = json.RawMessage(`{"commit":"0000000"}`)
	save(t, b, next)
	stale := Example()
	stale.Ledger = rollout.Ledger{}
	wantStale(t, a, stale)
	wantLoaded(t, open(), next)
}

func emptied(t *testing.T, open func() Store) {
	s := open()
	save(t, s, Example())
	save(t, s, store.State{})
	wantLoaded(t, open(), store.State{})
	save(t, s, Example())
	wantLoaded(t, open(), Example())
}

func deleted(t *testing.T, open func() Store) {
	s := open()
	if names, err := s.Delete(t.Context()); err != nil || len(names) > 0 || len(s.Kept()) > 0 {
		t.Errorf("before anything was saved: deleted %v, %v", names, err)
	}
	save(t, s, Example())
	kept := s.Kept()
	names, err := s.Delete(t.Context())
	if err != nil || len(names) < 2 || len(names) != len(kept) || len(s.Kept()) > 0 {
		t.Errorf("deleted %v of %v, %v; still %v", names, kept, err, s.Kept())
	}
	wantLoaded(t, open(), store.State{})
	save(t, s, Example())
	wantLoaded(t, open(), Example())
}

func staleDelete(t *testing.T, open func() Store) {
	a, b := open(), open()
	save(t, a, Example())
	wantLoaded(t, b, Example())
	next := Example()
	next.Inventory, next.Ledger.Visits[0].Node = next.Inventory.Without(next.Inventory.IDs()[0]), "node-2"
	save(t, a, next)
	if names, err := b.Delete(t.Context()); !errors.Is(err, store.ErrStale) || len(names) > 0 {
		t.Errorf("deleted %v, %v, want it to be stale", names, err)
	}
	wantLoaded(t, open(), next)
}

func unchanged(t *testing.T, open func() Store) {
	a, b := open(), open()
	save(t, a, Example())
	wantLoaded(t, b, Example())
	save(t, a, Example())
	next := Example()
	next.Inventory = inventory.Set{}
	save(t, b, next) // a wrote nothing since b loaded
	wantLoaded(t, open(), next)
}

func partial(t *testing.T, open func() Store) {
	onlyInventory, onlyLedger := Example(), Example()
	onlyInventory.Ledger, onlyInventory.Record = rollout.Ledger{}, nil
	onlyLedger.Inventory = inventory.Set{}
	for _, state := range []store.State{onlyInventory, onlyLedger} {
		s := open()
		if _, err := s.Load(t.Context()); err != nil {
			t.Fatalf("load: %v", err)
		}
		save(t, s, state)
		wantLoaded(t, open(), state)
	}
}

// longCalendar: a calendar may be as long as a file may be, and governs every
// DaemonSet of the fleet.
func longCalendar(t *testing.T, open func() Store) {
	const daemonSets, longest = 1000, 128 << 10
	random, calendar := rand.New(rand.NewPCG(1, 2)), make([]byte, longest*3/4)
	for i := range calendar {
		calendar[i] = byte(random.Uint32())
	}
	docs := []policy.Document{
		{Object: map[string]any{"kind": policy.KindUpgradePolicy}},
		{Object: map[string]any{"kind": policy.KindFreeze}, Calendar: base64.StdEncoding.EncodeToString(calendar)},
	}
	state := Example()
	for i := range daemonSets {
		state.Ledger.Governed[fmt.Sprintf("kube-system/agent-%d", i)] = rollout.Governance{Policy: "cni", Documents: docs}
	}
	s := open()
	wantLoaded(t, s, store.State{})
	save(t, s, state)
	wantLoaded(t, open(), state)
}

func save(t *testing.T, s Store, state store.State) {
	t.Helper()
	if err := s.Save(t.Context(), state); err != nil {
		t.Fatalf("save: %v", err)
	}
}

func wantStale(t *testing.T, s Store, state store.State) {
	t.Helper()
	if err := s.Save(t.Context(), state); !errors.Is(err, store.ErrStale) {
		t.Fatalf("save: got %v, want %v", err, store.ErrStale)
	}
}

func wantLoaded(t *testing.T, s Store, want store.State) {
	t.Helper()
	got, err := s.Load(t.Context())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("state (-want +got):\n%s", diff)
	}
}
