// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/snapshot"
)

func newSnapshotCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot",
		Short: "Print what the planner sees of the cluster, for plans where there is no cluster",
		Long: `Print what the planner sees of the cluster as JSON, for plan --snapshot: nodes with
their labels and taints, DaemonSets and their pods by state, the ledger, and a
digest of each object that the instance owns. It holds no Secret, no value of an
environment variable, and no annotation but those that are acted on.`,
		Example: "  lamplighter snapshot > snapshot.json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g.output == formatYAML {
				return fmt.Errorf("-o %s: a snapshot is JSON", g.output)
			}
			data, err := takeSnapshot(cmd.Context(), g)
			if err != nil {
				return err
			}
			_, err = g.streams.Out.Write(data)
			return err
		},
	}
}

func takeSnapshot(ctx context.Context, g *globals) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := connect(ctx, g, connectOptions{})
	if err != nil {
		return nil, err
	}
	obs, err := c.reconciler.Observe(ctx, reconcile.Source{})
	if err != nil {
		return nil, err
	}
	ids := obs.State.Inventory.IDs()
	live, err := c.cluster.Orphans(ctx, ids)
	if err != nil {
		return nil, err
	}
	applied, err := c.cluster.Applied(ctx, ids)
	if err != nil {
		return nil, err
	}
	owned := make([]snapshot.Owned, len(ids))
	for i := range ids {
		owned[i] = snapshot.Owned{Live: live[i], Applied: applied[i].Object}
		if applied[i].Err != nil {
			fmt.Fprintf(g.streams.Err, "warning: what is applied of %s is not known: %v\n", inventory.Format(ids[i]), applied[i].Err)
		}
	}
	s, err := snapshot.New(obs, owned, now())
	if err != nil {
		return nil, err
	}
	return snapshot.Encode(s)
}

// readSnapshot reads what snapshot wrote.
func readSnapshot(path string) (snapshot.Snapshot, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			err = cause.Err // the flag and its file are named below
		}
		return snapshot.Snapshot{}, fmt.Errorf("--snapshot %s: %w", path, err)
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		return snapshot.Snapshot{}, hint(fmt.Errorf("--snapshot %s: %w", path, err), "lamplighter snapshot > snapshot.json takes one")
	}
	return s, nil
}
