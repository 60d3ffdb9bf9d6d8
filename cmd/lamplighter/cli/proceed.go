// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/window"
)

// longestProceed is rollout.MaxProceed as people write it.
var longestProceed = fmt.Sprintf("%.0fh", rollout.MaxProceed.Hours())

type proceedFlags struct {
	length time.Duration
	reason string
	end    bool
}

func newProceedCommand(g *globals) *cobra.Command {
	var f proceedFlags
	cmd := &cobra.Command{
		Use:   "proceed POLICY --for DURATION --reason WHY",
		Short: "Break the glass: roll a policy out now, whatever its windows and freezes say",
		Long: `Override the windows and freezes of a policy for a time: its held templates are
applied and its nodes are visited. All else holds as ever: maxUnavailable, waves,
gates, holds, pauses, halts, and that a visit should end in time. It ends by itself,
or with --end. It is on record, shown by status for as long as it lasts, and its begin
and end are Events.`,
		Example: `  lamplighter proceed network --for 2h --reason "CVE-2027-1234, CHG-77"
  lamplighter proceed network --end`,
		Args:              onePolicy,
		ValidArgsFunction: completePolicy(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(cmd); err != nil {
				return err
			}
			if f.end {
				return f.endNow(cmd, g, args[0])
			}
			return f.begin(cmd, g, args[0])
		},
	}
	cmd.Flags().DurationVar(&f.length, "for", 0, "how long, at most "+longestProceed+" (required, but for --end)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, in one line (required, but for --end)")
	cmd.Flags().BoolVar(&f.end, "end", false, "take back what was said before")
	return cmd
}

func (f *proceedFlags) validate(cmd *cobra.Command) error {
	switch {
	case f.end && (f.reason != "" || cmd.Flags().Changed("for")):
		return usage(cmd, "--end stands alone: it takes back what was said before")
	case f.end:
		return nil
	case !cmd.Flags().Changed("for"):
		return usage(cmd, "--for is missing: say for how long, %s at most", longestProceed)
	case f.length < time.Minute || f.length > rollout.MaxProceed:
		return usage(cmd, "--for %s: between 1m and %s", f.length, longestProceed)
	}
	return checkReason(cmd, f.reason)
}

func (f *proceedFlags) begin(cmd *cobra.Command, g *globals, name string) error {
	d, err := openDesk(cmd.Context(), g)
	if err != nil {
		return err
	}
	if problem := d.clock.Problem(); problem != "" {
		return hint(errors.New(problem), "proceed says by this clock when it ends: set it first")
	}
	since := now().UTC().Truncate(time.Second)
	p := rollout.Proceed{Policy: name, Reason: f.reason, By: d.whoAmI(cmd.Context()), Since: since, Until: since.Add(f.length)}
	before, err := d.change(cmd.Context(), name, func(l rollout.Ledger) (rollout.Ledger, error) { return l.Proceed(p) })
	if err != nil {
		return err
	}
	if err := printAnswer(g, show.NewProceeding(p), show.WriteProceeding); err != nil {
		return err
	}
	warnOfPause(g, before, name)
	set, _ := policy.ParseRecorded(before.Record.Documents, p.Since)
	for _, known := range set.Upgrades {
		if known.Name == name {
			warnOfHalt(g, before, known)
			warnOfLength(g, before, known, p)
		}
	}
	return nil
}

// warnOfLength says that no visit fits into the time for which a policy proceeds.
func warnOfLength(g *globals, state reconcile.State, known policy.UpgradePolicy, p rollout.Proceed) {
	if visit := rollout.VisitLength(known, state.Ledger, p.Since); visit > p.Until.Sub(p.Since) {
		fmt.Fprintf(g.streams.Err, "hint: a visit of policy %s takes %s: none starts unless it proceeds for longer\n", p.Policy, window.FormatDuration(visit))
	}
}

// warnOfHalt says that a policy does not proceed because too many nodes have failed.
func warnOfHalt(g *globals, state reconcile.State, known policy.UpgradePolicy) {
	if rollout.Halts(state.Ledger.Failures, known) != "" {
		fmt.Fprintf(g.streams.Err, "hint: policy %s is halted: %s\n", known.Name, rollout.HaltEnds(known.Name))
	}
}

// warnOfPause says that a policy does not proceed though it was told to.
func warnOfPause(g *globals, state reconcile.State, policy string) {
	if slices.ContainsFunc(state.Ledger.Pauses, func(p rollout.Pause) bool { return p.Policy == policy }) {
		fmt.Fprintf(g.streams.Err, "hint: policy %s is paused: lamplighter resume %s lets it go on\n", policy, policy)
	}
}

func (f *proceedFlags) endNow(cmd *cobra.Command, g *globals, policy string) error {
	d, err := openDesk(cmd.Context(), g)
	if err != nil {
		return err
	}
	ended := show.Ended{Policy: policy}
	_, err = d.change(cmd.Context(), policy, func(l rollout.Ledger) (rollout.Ledger, error) {
		l, ended.Ended = l.EndProceed(policy)
		return l, nil
	})
	if err != nil {
		return err
	}
	return printAnswer(g, ended, show.WriteEnded)
}
