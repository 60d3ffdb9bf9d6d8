// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile"
)

func newDiffCommand(g *globals) *cobra.Command {
	var (
		path       string
		allowPrune bool
	)
	cmd := &cobra.Command{
		Use:   "diff [DIR]",
		Short: "Show what applying a working tree would change in the cluster",
		Long: `Show what applying a working tree would change, by a server-side dry run, and what
is held back or guarded, and why. Exit code 0 for no differences, 1 for some, 2
for an error. Nothing is changed.`,
		Example: "  lamplighter diff . --path clusters/prod --context prod",
		Args:    maxOneDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.validate("text", "json"); err != nil {
				return err
			}
			fleet, err := readFleet(cmd.Context(), g, dirArg(args), path)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			c, err := connect(ctx, g, connectOptions{allowPrune: allowPrune, thorough: true})
			if err != nil {
				return err
			}
			diffs, err := diffNow(ctx, c, fleet)
			if err != nil {
				return err
			}
			err = printAnswer(g, diffs, func(w io.Writer, diffs []show.ObjectDiff) error {
				return show.Diff(w, diffs, show.Options{Color: g.colored()})
			})
			if err == nil && len(diffs) > 0 {
				err = exitCode(exitSignal)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&path, "path", ".", "kustomize root inside the working tree")
	cmd.Flags().BoolVar(&allowPrune, "allow-prune", false, "show the diff as if more than half of the objects might be removed")
	return cmd
}

func diffNow(ctx context.Context, c *connection, fleet *reconcile.Fleet) ([]show.ObjectDiff, error) {
	obs, err := c.reconciler.Observe(ctx, reconcile.Source{Fleet: fleet})
	if err != nil {
		return nil, err
	}
	plan, err := reconcile.New(obs, now())
	if err != nil {
		return nil, err
	}
	return show.Diffs(plan.Objects, obs.Changes)
}
