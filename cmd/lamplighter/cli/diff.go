// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

func newDiffCommand(g *globals) *cobra.Command {
	var (
		f          treeFlags
		allowPrune bool
		partial    bool
		drift      string
		takeOver   []string
		adoption   inventory.Adoption
	)
	cmd := &cobra.Command{
		Use:   "diff [DIR]",
		Short: "Show what applying a working tree would change in the cluster",
		Long: `Show what applying a working tree would change, by a server-side dry run, and what
is held back, guarded or refused, and why. The values of Secrets are masked.
KUBECTL_EXTERNAL_DIFF names a program that prints the differences instead, as with
kubectl. Nothing is changed. Exit code 0 for no differences, 1 for some, 2 for an error.`,
		Example:           "  lamplighter diff . --path clusters/prod --context prod",
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			fleet, err := f.readFleet(cmd.Context(), g, dirArg(args))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			c, err := connect(ctx, g, connectOptions{allowPrune: allowPrune, drift: drift, partial: partial, takeOverFrom: takeOver, adoption: adoption, thorough: true})
			if err != nil {
				return err
			}
			diff, err := diffNow(ctx, c, fleet)
			if err != nil {
				return err
			}
			err = printDiff(ctx, g, diff)
			if err != nil || len(diff.Objects) == 0 {
				return err
			}
			if diff.Refused != "" {
				fmt.Fprintf(g.streams.Err, "lamplighter: %s\n", diff.Refused)
			}
			if diff.HasConflict() {
				fmt.Fprintln(g.streams.Err, conflictHint)
			}
			return exitCode(exitSignal)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&drift, "drift", string(inventory.CorrectDrift), driftUsage)
	cmd.Flags().BoolVar(&allowPrune, "allow-prune", false, "show the diff as if more than half of the objects might be removed")
	adoptionVar(cmd.Flags(), &adoption)
	cmd.Flags().BoolVar(&partial, "partial", false, "show the diff as if the rest were applied when some objects cannot be")
	addTakeOverFrom(cmd.Flags(), &takeOver)
	return cmd
}

// printDiff prints text with the program that the environment names, if it does.
func printDiff(ctx context.Context, g *globals, diff show.Diff) error {
	command := os.Getenv(externalDiff)
	if g.output == formatText && strings.TrimSpace(command) != "" {
		return runExternalDiff(ctx, g, command, diff)
	}
	return printAnswer(g, diff, func(w io.Writer, d show.Diff) error {
		return show.WriteDiff(w, d, show.Options{Color: g.colored()})
	})
}

func diffNow(ctx context.Context, c *connection, fleet *reconcile.Fleet) (show.Diff, error) {
	obs, err := c.reconciler.Observe(ctx, reconcile.Source{Fleet: fleet})
	if err != nil {
		return show.Diff{}, err
	}
	plan, err := reconcile.New(obs, now())
	if err != nil {
		return show.Diff{}, err
	}
	diff, err := show.NewDiff(plan.Objects, obs.Changes)
	diff.Tell(reconcile.Impacts(obs, plan))
	if refused := obs.Refused(); refused != nil {
		diff.Refused = refused.Error()
	}
	return diff, err
}
