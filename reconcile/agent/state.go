// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/cluster"
)

// Store keeps a pass's state in a store, which knows nothing of what is in the
// record.
type Store struct{ *store.Store }

// NewStore returns where an instance keeps its state.
func NewStore(client kubernetes.Interface, instance inventory.Instance) Store {
	return Store{store.New(client, instance)}
}

// Load reads the state.
func (s Store) Load(ctx context.Context) (reconcile.State, error) {
	stored, err := s.Store.Load(ctx)
	if err != nil {
		return reconcile.State{}, err
	}
	state := reconcile.State{Inventory: stored.Inventory, Ledger: stored.Ledger}
	if len(stored.Record) > 0 {
		if err := json.Unmarshal(stored.Record, &state.Record); err != nil {
			return reconcile.State{}, fmt.Errorf("record of the commit in force: %w", err)
		}
	}
	return state, nil
}

// Save writes it, as [store.Store.Save] does.
func (s Store) Save(ctx context.Context, state reconcile.State) error {
	record, err := json.Marshal(state.Record)
	if err != nil {
		return fmt.Errorf("record of the commit in force: %w", err)
	}
	return s.Store.Save(ctx, store.State{Inventory: state.Inventory, Ledger: state.Ledger, Record: record})
}

// thorough is a cluster that compares every object by a dry run, whatever is
// remembered of it.
type thorough struct{ *cluster.Cluster }

// Thorough makes passes look at every object, as a person does who asks what
// would change.
func Thorough(c *cluster.Cluster) reconcile.Cluster { return thorough{c} }

func (t thorough) Inspect(ctx context.Context, objects []*unstructured.Unstructured) ([]inventory.Change, error) {
	return t.InspectFully(ctx, objects)
}
