// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/why"
)

func newHistoryCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "history daemonset/NAMESPACE/NAME",
		Short: "Show what became of each revision of a DaemonSet",
		Long: `Show the revisions of a DaemonSet, newest first: the commit that brought each one, how
many nodes were visited with it, what became of them, and how long a pod took to be
replaced. The visits are those on record, the last 500 of the instance. Of a
DaemonSet that is gone the record alone is shown. ds/NAMESPACE/NAME, NAMESPACE/NAME
and, if there is one of that name only, ds/NAME mean a DaemonSet too.`,
		Example: "  lamplighter history daemonset/kube-system/calico-node",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(cmd, "history takes one daemonset/NAMESPACE/NAME, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeDaemonSet(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			about, err := parseSubject(cmd, args[0])
			if err != nil {
				return err
			}
			if about.node != "" {
				return usage(cmd, "%q: write daemonset/NAMESPACE/NAME, or daemonset/NAME", args[0])
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			h, err := history(ctx, g, about.daemonSet)
			if err != nil {
				return suggest(err)
			}
			return printAnswer(g, h, show.WriteHistory)
		},
	}
}

func history(ctx context.Context, g *globals, name types.NamespacedName) (show.History, error) {
	d, err := openDesk(ctx, g)
	if err != nil {
		return show.History{}, err
	}
	state, err := d.states.Load(ctx)
	if err != nil {
		return show.History{}, err
	}
	if name, err = onRecord(state, name); err != nil {
		return show.History{}, err
	}
	revisions, found, err := revisionsOf(ctx, d.client, name)
	if err != nil {
		return show.History{}, err
	}
	current := ""
	if len(revisions) > 0 {
		current = slices.MaxFunc(revisions, byNumber).Hash
	}
	h := show.NewHistory(name.String(), current, halted(state, name.String()), state, revisions)
	if !found && len(h.Revisions) == 0 {
		return h, fmt.Errorf("daemonset %s does not exist, and nothing is on record of it", name)
	}
	return h, nil
}

// onRecord is the full name of a DaemonSet. One without a namespace is the only one
// of that name that a policy on record names or the instance owns.
func onRecord(state reconcile.State, name types.NamespacedName) (types.NamespacedName, error) {
	if name.Namespace != "" {
		return name, nil
	}
	set, _ := policy.ParseRecorded(state.Record.Documents, now())
	return why.FindDaemonSet(reconcile.Observation{State: state, Policies: set}, name)
}

func byNumber(a, b show.Revision) int { return cmp.Compare(a.Number, b.Number) }

// halted says that the policy of a DaemonSet is, by the policies on record.
func halted(state reconcile.State, daemonSet string) bool {
	set, _ := policy.ParseRecorded(state.Record.Documents, now())
	for _, p := range set.Upgrades {
		if p.Name == state.Ledger.Governed[daemonSet].Policy {
			return rollout.Halts(state.Ledger.Failures, p) != ""
		}
	}
	return false
}

// revisionsOf are those that the API server keeps of a DaemonSet, if it exists.
func revisionsOf(ctx context.Context, client kubernetes.Interface, name types.NamespacedName) ([]show.Revision, bool, error) {
	ds, err := client.AppsV1().DaemonSets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("daemonset %s: %w", name, err)
	}
	list, err := client.AppsV1().ControllerRevisions(name.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(ds.Spec.Selector)})
	if err != nil {
		return nil, true, fmt.Errorf("revisions of daemonset %s: %w", name, err)
	}
	var out []show.Revision
	for i := range list.Items {
		if r := &list.Items[i]; metav1.IsControlledBy(r, ds) {
			out = append(out, show.Revision{Number: r.Revision, Hash: r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey], Created: r.CreationTimestamp.Time})
		}
	}
	return out, true, nil
}

// completeDaemonSet completes the DaemonSets that the ledger knows.
func completeDaemonSet(g *globals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		d, err := openDesk(cmd.Context(), g)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		state, err := d.states.Load(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for name := range state.Ledger.Governed {
			names = append(names, "daemonset/"+name)
		}
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
