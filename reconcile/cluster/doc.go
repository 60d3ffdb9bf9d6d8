// SPDX-License-Identifier: Apache-2.0

// Package cluster is the only one that changes users' objects. It says what is
// on the cluster and carries out what others have decided:
//
//	c, err := cluster.New(config, cluster.Options{Instance: us})
//	err = c.Start(ctx)
//	changes, err := c.Inspect(ctx, prepared)     // rendered objects against live ones
//	outcomes := c.Apply(ctx, plan.Steps, nil)    // server-side apply, step by step
//	outcomes = c.Prune(ctx, plan.Prunes, nil)    // deletions, with preconditions
//	attempt := c.Evict(ctx, decision)
//
// It decides nothing: not what is applied, nor when, nor whether a window is
// open. What it knows comes from watches; a pass in which nothing has moved
// asks the API server nothing. Requests that fail for a passing reason are
// repeated, within bounds; every other answer becomes an outcome of the object
// that it is about. No error and no log line holds the value of a Secret.
package cluster
