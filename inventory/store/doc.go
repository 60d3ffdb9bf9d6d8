// SPDX-License-Identifier: Apache-2.0

// Package store keeps what an instance has to remember in two ConfigMaps of its
// namespace: <instance>-inventory, in cli-utils' format, and <instance>-ledger.
//
//	s := store.New(client, instance)
//	state, err := s.Load(ctx)
//	state.Inventory = plan.Next
//	err = s.Save(ctx, state)
//
// A save writes only what has changed, and only over what was loaded: if
// somebody else has written since, it is refused with [ErrStale]. What cannot
// be read is an error that names the ConfigMap and the key, and is never
// overwritten.
package store
