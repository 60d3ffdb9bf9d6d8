// SPDX-License-Identifier: Apache-2.0

// Package store keeps what an instance has to remember in ConfigMaps of its
// namespace: <instance>-inventory, in cli-utils' format, and <instance>-ledger. An
// inventory of many thousand objects goes on in <instance>-inventory-2 and so on.
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
