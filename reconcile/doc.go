// SPDX-License-Identifier: Apache-2.0

// Package reconcile is the pass: observe, plan, record, act, settle. [Read]
// makes a fleet of a commit, [New] decides from what was observed, and a
// [Reconciler] does what was decided through the small interfaces it is given.
// It never decides anything outside New, and New asks nobody:
//
//	r := reconcile.NewReconciler(reconcile.Options{Cluster: cluster, Store: store, Now: time.Now})
//	report, err := r.Pass(ctx, reconcile.Source{Fleet: fleet})
package reconcile
