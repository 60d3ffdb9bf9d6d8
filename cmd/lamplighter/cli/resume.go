// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/rollout"
)

func newResumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "resume POLICY",
		Short: "Let a policy go on that was paused or has halted",
		Long: `End a policy's pause, and acknowledge the failures on record for it. A policy that
was halted by them goes on; a node that is still broken keeps its slot until it is
well, and the answer names it. A DaemonSet that was reverted gets the template that Git has again. A node that
is left alone for a while, because its eviction was refused, its drain was not done in
time or its Job has failed, is tried again at once.`,
		Example:           "  lamplighter resume network",
		Args:              onePolicy,
		ValidArgsFunction: completePolicy(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := openDesk(cmd.Context(), g)
			if err != nil {
				return err
			}
			before, err := d.change(cmd.Context(), args[0], func(l rollout.Ledger) (rollout.Ledger, error) { return l.Resume(args[0]), nil })
			if err != nil {
				return err
			}
			return printAnswer(g, resumed(before.Ledger, args[0]), show.WriteResumed)
		},
	}
}

func resumed(before rollout.Ledger, policy string) show.Resumed {
	r := show.Resumed{Policy: policy}
	r.Unpaused = slices.ContainsFunc(before.Pauses, func(p rollout.Pause) bool { return p.Policy == policy })
	for _, f := range before.Failures {
		if f.Policy == policy && !f.Acknowledged {
			r.Acknowledged++
		}
	}
	for _, refusal := range before.Refusals {
		if refusal.Policy == policy {
			r.Retried = append(r.Retried, refusal.Node)
		}
	}
	r.KeptSlots = before.KeptSlots(policy)
	for _, mark := range before.Reversals {
		if mark.Policy == policy {
			r.Unmarked = append(r.Unmarked, mark.DaemonSet)
		}
	}
	return r
}
