// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/reconcile/policy"
)

type applyFlags struct {
	treeFlags
	yes            bool
	forceConflicts bool
	drift          string
	takeOverFrom   []string
	allowPrune     bool
	partial        bool
	adoption       inventory.Adoption
}

func newApplyCommand(g *globals) *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply [DIR]",
		Short: "Run one pass of a working tree now, after showing what it would do",
		Long: `Run one pass: apply what changed, prune what is gone, and evict the pods that may be
evicted now. Windows, budgets and guards hold as they do for the agent, so what is
not due yet is held, and a later pass goes on. If one object cannot be applied none
is, unless --partial is given. Refused while an agent runs the instance. Exit code 1
if something failed or was refused, or the answer was no; 2 if nobody answers.`,
		Example: `  lamplighter apply . --path clusters/prod
  lamplighter apply . --path clusters/prod --yes -o json`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			fleet, err := f.readFleet(cmd.Context(), g, dirArg(args))
			if err != nil {
				return err
			}
			return f.apply(cmd.Context(), g, fleet)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&f.drift, "drift", string(inventory.CorrectDrift), driftUsage)
	cmd.Flags().BoolVar(&f.forceConflicts, "force-conflicts", false, "take fields that another field manager holds")
	addTakeOverFrom(cmd.Flags(), &f.takeOverFrom)
	cmd.Flags().BoolVar(&f.allowPrune, "allow-prune", false, "let more than half of the objects be removed")
	adoptionVar(cmd.Flags(), &f.adoption)
	cmd.Flags().BoolVar(&f.partial, "partial", false, "apply the rest if some objects cannot be applied")
	return cmd
}

// apply shows the plan, asks, and runs the pass while it holds the Lease.
func (f *applyFlags) apply(ctx context.Context, g *globals, fleet *reconcile.Fleet) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := connect(ctx, g, connectOptions{forceConflicts: f.forceConflicts, takeOverFrom: f.takeOverFrom, drift: f.drift, allowPrune: f.allowPrune, partial: f.partial, adoption: f.adoption, careful: true})
	if err != nil {
		return err
	}
	lease := agent.Lease{Client: c.clientset, Instance: c.instance}
	holder, err := lease.Holder(ctx, now())
	if err != nil {
		return err
	}
	if holder != "" {
		return hint(fmt.Errorf("instance %s is run by %s, which holds its lease", lease, holder), "commit to its repository, or stop it first")
	}
	src := reconcile.Source{Fleet: fleet}
	if err := f.agree(ctx, g, c, src); err != nil {
		return err
	}
	if err := ensureNamespace(ctx, c); err != nil {
		return err
	}
	var report reconcile.Report
	ran := false
	err = lease.Hold(ctx, func(ctx context.Context) (err error) {
		ran = true
		report, err = c.reconciler.Pass(ctx, src)
		return err
	})
	if !ran && err == nil {
		err = errors.Join(errors.New("stopped while waiting for the lease"), ctx.Err())
	}
	if err != nil {
		return err
	}
	if refused := report.Observation.Refused(); refused != nil {
		return tellRefused(g, report, refused)
	}
	applied := show.NewApplied(report)
	if err := printAnswer(g, applied, show.WriteApplied); err != nil {
		return err
	}
	if applied.HasConflict() {
		fmt.Fprintln(g.streams.Err, conflictHint)
	}
	if applied.Failed() {
		return exitCode(exitSignal)
	}
	return nil
}

// tellRefused says that nothing was applied, and what stands in the way of it.
func tellRefused(g *globals, report reconcile.Report, refused error) error {
	applied := show.NewApplied(report)
	if err := printAnswer(g, applied, show.WriteApplied); err != nil {
		return err
	}
	fmt.Fprintf(g.streams.Err, "lamplighter: %s\n", refused)
	if applied.HasConflict() {
		fmt.Fprintln(g.streams.Err, conflictHint)
	} else {
		fmt.Fprintln(g.streams.Err, "hint: correct it, or apply the rest with lamplighter apply --partial")
	}
	return exitCode(exitSignal)
}

const conflictHint = "hint: drop the field from Git, or take it with lamplighter apply --force-conflicts"

// agree shows the plan and asks, unless --yes was given.
func (f *applyFlags) agree(ctx context.Context, g *globals, c *connection, src reconcile.Source) error {
	if err := c.reconciler.Inquire(ctx, src); err != nil {
		return err
	}
	c.asker.Wait()
	obs, err := c.reconciler.Observe(ctx, src)
	if err != nil {
		return err
	}
	plan, err := reconcile.New(obs, now())
	if err != nil {
		return err
	}
	if refused := obs.Refused(); refused != nil {
		return tellRefused(g, reconcile.Report{Observation: obs, Plan: plan}, refused)
	}
	if err := show.WritePass(g.streams.Err, plan); err != nil {
		return err
	}
	newRules, err := differ(obs.State.Record.Documents, src.Fleet.Policies.Documents())
	if err != nil {
		return err
	}
	if newRules {
		fmt.Fprintln(g.streams.Err, "windows, freezes or policies change")
	}
	if f.yes || (!newRules && !show.Touches(plan)) {
		return nil
	}
	return ask(g, "Apply to "+c.config.Host+"?", "applies")
}

// differ compares policy kinds as they were recorded with those of a fleet.
func differ(recorded, now []policy.Document) (bool, error) {
	was, err := json.Marshal(recorded)
	if err != nil {
		return false, fmt.Errorf("policies on record: %w", err)
	}
	is, err := json.Marshal(now)
	if err != nil {
		return false, fmt.Errorf("policies: %w", err)
	}
	return len(recorded)+len(now) > 0 && !bytes.Equal(was, is), nil
}

// ensureNamespace makes the place where the instance keeps its state.
func ensureNamespace(ctx context.Context, c *connection) error {
	_, err := c.clientset.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.instance.Namespace}},
		metav1.CreateOptions{FieldManager: inventory.FieldManager})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	if _, getErr := c.clientset.CoreV1().Namespaces().Get(ctx, c.instance.Namespace, metav1.GetOptions{}); getErr == nil {
		return nil // it is there, and we may not create any
	}
	return fmt.Errorf("namespace %s: %w", c.instance.Namespace, err)
}
