// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

// planFlags are the flags of plan alone.
type planFlags struct {
	treeFlags
	at         string
	nodes      bool
	exitCode   bool
	allowPrune bool
	partial    bool
	drift      string
	takeOver   []string
	adoption   inventory.Adoption
	snapshot   string
}

func newPlanCommand(g *globals) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [DIR]",
		Short: "Show what a working tree would change, which node is visited when, and when all is done",
		Long: `Show what a working tree would change in the cluster, and then the calendar: the
agent's own planner runs on a simulated clock, so it says which node is visited
in which window, when the last one is done, or what can never finish. Visits take
as long as those that were measured, or as the policy's visitDuration. Nothing is
changed. With --snapshot no cluster is asked, and what cannot be known is said.
Exit code 0, or with --exit-code 1 if there is something to do.`,
		Example: `  lamplighter plan . --path clusters/prod
  lamplighter plan . --path clusters/prod --nodes --at 2026-12-24T23:00:00+01:00
  lamplighter plan . --path clusters/prod --snapshot snapshot.json -o markdown`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		Annotations:       map[string]string{moreFormats: formatMarkdown},
		RunE: func(cmd *cobra.Command, args []string) error {
			at := now()
			if f.at != "" {
				var err error
				if at, err = parseInstant("--at", f.at); err != nil {
					return err
				}
			}
			fleet, err := f.readFleet(cmd.Context(), g, dirArg(args))
			if err != nil {
				return err
			}
			plan, err := f.plan(cmd.Context(), g, fleet, at)
			if err != nil {
				return err
			}
			if err := printAnswer(g, plan, f.writer(g)); err != nil {
				return err
			}
			if f.exitCode && plan.Pending() {
				return exitCode(exitSignal)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.at, "at", "", "plan as if it were this instant (default: now)")
	cmd.Flags().BoolVar(&f.nodes, "nodes", false, "list every visit instead of the first and last node of a window")
	cmd.Flags().BoolVar(&f.exitCode, "exit-code", false, "end with 1 if there is something to do")
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "plan from this file, which lamplighter snapshot wrote, and ask no cluster")
	cmd.Flags().StringVar(&f.drift, "drift", string(inventory.CorrectDrift), driftUsage)
	cmd.Flags().BoolVar(&f.allowPrune, "allow-prune", false, "plan as if more than half of the objects might be removed")
	addTakeOverFrom(cmd.Flags(), &f.takeOver)
	adoptionVar(cmd.Flags(), &f.adoption)
	cmd.Flags().BoolVar(&f.partial, "partial", false, "plan as if the rest were applied when some objects cannot be")
	return cmd
}

func (f *planFlags) writer(g *globals) func(io.Writer, show.Plan) error {
	return func(w io.Writer, p show.Plan) error {
		if g.output == formatMarkdown {
			return show.WriteMarkdown(w, p, f.nodes)
		}
		return show.WritePlan(w, p, f.nodes)
	}
}

// plan asks a snapshot, if there is one, or else the cluster.
func (f *planFlags) plan(ctx context.Context, g *globals, fleet *reconcile.Fleet, at time.Time) (show.Plan, error) {
	if err := inventory.DriftMode(f.drift).Validate(); err != nil {
		return show.Plan{}, fmt.Errorf("--drift %w", err)
	}
	if f.snapshot == "" {
		return f.onCluster(ctx, g, fleet, at)
	}
	s, err := readSnapshot(f.snapshot)
	if err != nil {
		return show.Plan{}, err
	}
	obs, unknown, err := s.Observe(fleet)
	if err != nil {
		return show.Plan{}, fmt.Errorf("--snapshot %s: %w", f.snapshot, err)
	}
	obs.AllowPrune, obs.Adoption, obs.Drift = f.allowPrune, f.adoption, inventory.DriftMode(f.drift)
	plan, err := foresee(obs, at)
	plan.Snapshot = &show.SnapshotNote{Taken: show.Time(s.Taken), Unknown: unknown}
	return plan, err
}

// onCluster plans for the cluster that the flags name.
func (f *planFlags) onCluster(ctx context.Context, g *globals, fleet *reconcile.Fleet, at time.Time) (show.Plan, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := connect(ctx, g, connectOptions{allowPrune: f.allowPrune, drift: f.drift, partial: f.partial, takeOverFrom: f.takeOver, adoption: f.adoption, thorough: true})
	if err != nil {
		return show.Plan{}, err
	}
	obs, err := c.reconciler.Observe(ctx, reconcile.Source{Fleet: fleet})
	if err != nil {
		return show.Plan{}, err
	}
	return foresee(obs, at)
}

// foresee decides, and looks ahead.
func foresee(obs reconcile.Observation, at time.Time) (show.Plan, error) {
	plan, err := reconcile.New(obs, at)
	if err != nil {
		return show.Plan{}, err
	}
	return show.NewPlan(obs, plan, reconcile.Foresee(obs, plan, at), at), nil
}
