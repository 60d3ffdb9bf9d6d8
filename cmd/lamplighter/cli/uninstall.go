// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
)

// confirmTimeout bounds the wait for one object to be gone. What takes longer is
// looked at again while the others go on.
const confirmTimeout = time.Second

type uninstallFlags struct {
	yes     bool
	timeout time.Duration
	how     reconcile.Removal
}

func newUninstallCommand(g *globals) *cobra.Command {
	var f uninstallFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete all that an instance has applied, or let go of it",
		Long: `Delete the objects that an instance owns, those that need others first, and then what
it remembers: inventory, ledger and Lease. What somebody else still needs is left in
the cluster, without our marks: a namespace or a definition with objects that are not
ours, what a pod of another DaemonSet mounts, what carries an annotation to stay. With
--orphan everything is left. Refused while an agent runs the instance, which would
apply all of it again.

Deleting a DaemonSet ends its pods on all nodes at once, so it is refused outside the
windows of its policy, unless --ignore-windows is given. What is interrupted goes on
when it is called again. Exit code 1 if something is left that should have gone.`,
		Example: `  lamplighter uninstall
  lamplighter uninstall --orphan --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.timeout <= 0 {
				return usage(cmd, "--timeout %s: it has to be longer than nothing", f.timeout)
			}
			return f.uninstall(cmd.Context(), g)
		},
	}
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&f.how.Orphan, "orphan", false, "leave the objects in the cluster, without our labels and annotations")
	cmd.Flags().BoolVar(&f.how.IgnoreWindows, "ignore-windows", false, "end pods though a window is shut or a freeze is in force")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for what does not go at once")
	return cmd
}

// uninstall shows what would go, asks, and removes it while it holds the Lease.
func (f *uninstallFlags) uninstall(ctx context.Context, g *globals) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := connect(ctx, g, connectOptions{careful: true, deletionTimeout: confirmTimeout})
	if err != nil {
		return err
	}
	lease := agent.Lease{Client: c.clientset, Instance: c.instance}
	holder, err := lease.Holder(ctx, now())
	if err != nil {
		return err
	}
	if holder != "" {
		return hint(fmt.Errorf("instance %s is run by %s, which holds its lease and would apply everything again", lease, holder),
			"stop it first: kubectl -n %s scale deployment/%s --replicas=0, if that is what runs it", c.instance.Namespace, c.instance.Name)
	}
	obs, err := c.reconciler.ObserveRemoval(ctx)
	if err != nil {
		return err
	}
	if len(c.states.Kept()) == 0 && len(obs.Strays) == 0 {
		return f.nothing(ctx, g, lease)
	}
	if err := f.agree(g, c, obs); err != nil {
		return err
	}
	removed, err := f.remove(ctx, c, lease)
	if printErr := printAnswer(g, removed, show.WriteRemoved); err != nil || printErr != nil {
		return errors.Join(err, printErr)
	}
	if !removed.Done {
		fmt.Fprintln(g.streams.Err, "hint: "+nextStep(removed))
		return exitCode(exitSignal)
	}
	fmt.Fprintf(g.streams.Err, "hint: namespace %s is left, and what runs an agent in it: one that starts applies everything again\n", c.instance.Namespace)
	return nil
}

// nextStep is how what is left is got rid of.
func nextStep(removed show.Removed) string {
	untracked := func(o show.AppliedObject) bool { return o.Reason == string(inventory.Untracked) }
	if slices.ContainsFunc(removed.Objects, untracked) {
		return "delete what is Untracked by hand if nobody needs it, or let go of it: lamplighter uninstall --orphan"
	}
	return "lamplighter uninstall goes on where this one ended"
}

// nothing ends an instance that remembers nothing: at most its Lease is left, by
// a process that was stopped at the very end.
func (f *uninstallFlags) nothing(ctx context.Context, g *globals, lease agent.Lease) error {
	gone, err := lease.Delete(ctx, now())
	if err != nil {
		return err
	}
	if !gone {
		return hint(fmt.Errorf("instance %s: there is nothing of it on this cluster", lease), "is it another --namespace, --name or --context?")
	}
	removed := show.NewRemoved(lease.Instance, nil)
	removed.Deleted, removed.Done = []string{"Lease/" + lease.String()}, true
	return printAnswer(g, removed, show.WriteRemoved)
}

// agree shows what would be done, and asks.
func (f *uninstallFlags) agree(g *globals, c *connection, obs reconcile.Observation) error {
	plan, err := reconcile.PlanRemoval(obs, f.how, now())
	if err != nil {
		return err
	}
	if err := show.WriteRemoval(g.streams.Err, obs, plan); err != nil {
		return err
	}
	if shut := outsideWindows(plan); len(shut) > 0 {
		fmt.Fprintf(g.streams.Err, "lamplighter: nothing was changed: now is not the time for %s\n", strings.Join(shut, ", "))
		fmt.Fprintln(g.streams.Err, "hint: wait for the window, or lamplighter proceed POLICY, or --ignore-windows; --orphan ends no pod")
		return exitCode(exitSignal)
	}
	if f.yes {
		return nil
	}
	if in, ok := g.streams.In.(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return errors.New("nobody can be asked, standard input is no terminal: --yes uninstalls without asking")
	}
	verb := "Delete this from"
	if f.how.Orphan {
		verb = "Let go of this on"
	}
	return ask(g, fmt.Sprintf("%s %s?", verb, c.config.Host), "uninstalls")
}

// outsideWindows are the objects that wait for a window, or for the end of a
// freeze.
func outsideWindows(plan inventory.Plan) []string {
	var shut []string
	for _, d := range plan.Decisions() {
		if d.Action != inventory.Hold {
			continue
		}
		switch d.Reason {
		case inventory.Terminating, inventory.Unknown, inventory.WaitsForDependency, inventory.NamespaceNotEmpty, inventory.KindInUse, inventory.Untracked:
		default:
			shut = append(shut, inventory.Format(d.ID))
		}
	}
	slices.Sort(shut)
	return shut
}

// remove removes what may go and, when nothing is left, what the instance
// remembers.
func (f *uninstallFlags) remove(ctx context.Context, c *connection, lease agent.Lease) (show.Removed, error) {
	var (
		reports []reconcile.Report
		deleted []string
	)
	ran, done := false, false
	err := lease.Hold(ctx, func(ctx context.Context) (err error) {
		ran = true
		c.reconciler.Forget() // what was shown may be old by now
		reports, err = agent.Uninstall(ctx, c.reconciler, f.how, f.timeout)
		if done = err == nil && len(reports) > 0 && agent.Removed(reports[len(reports)-1]); done {
			deleted, err = c.states.Delete(ctx)
		}
		return err
	})
	if !ran && err == nil {
		err = errors.Join(errors.New("stopped while waiting for the lease"), ctx.Err())
	}
	removed := show.NewRemoved(c.instance, reports)
	removed.Deleted = append(removed.Deleted, deleted...)
	if err != nil || !done {
		return removed, err
	}
	gone, err := lease.Delete(ctx, now())
	if gone {
		removed.Deleted = append(removed.Deleted, "Lease/"+lease.String())
	}
	removed.Done = err == nil
	return removed, err
}
