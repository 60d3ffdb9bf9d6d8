// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"time"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/rollout"
)

func newPauseCommand(g *globals) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause POLICY --reason WHY",
		Short: "Stop a policy from visiting more nodes",
		Long: `Stop a policy: no node is visited and no new template of its DaemonSets is applied
until lamplighter resume. A pod that was evicted already comes back by itself. The
pause is on record, shown by status, and outlives the agent.`,
		Example:           `  lamplighter pause network --reason "packet loss, INC-42"`,
		Args:              onePolicy,
		ValidArgsFunction: completePolicy(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkReason(cmd, reason); err != nil {
				return err
			}
			d, err := openDesk(cmd.Context(), g)
			if err != nil {
				return err
			}
			p := rollout.Pause{Policy: args[0], Reason: reason, By: d.whoAmI(cmd.Context()), Since: now().UTC().Truncate(time.Second)}
			if _, err := d.change(cmd.Context(), p.Policy, func(l rollout.Ledger) (rollout.Ledger, error) { return l.Pause(p), nil }); err != nil {
				return err
			}
			return printAnswer(g, show.NewPaused(p), show.WritePaused)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in one line (required)")
	return cmd
}
