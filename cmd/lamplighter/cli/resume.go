// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
)

// resumeTries bounds how often resume competes with the agent for the ledger.
const resumeTries = 10

func newResumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "resume POLICY",
		Short: "Acknowledge a policy's failures, so that a halted policy goes on",
		Long: `Acknowledge the failures on record for a policy. A policy that was halted by them
goes on; a node that is still broken keeps its slot until it is well.`,
		Example: "  lamplighter resume network",
		Args:    onePolicy,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := g.config()
			if err != nil {
				return err
			}
			clientset, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("kubernetes client: %w", err)
			}
			ctx := cmd.Context()
			if err := reachable(ctx, clientset, config.Host); err != nil {
				return err
			}
			states := agent.NewStore(clientset, inventory.Instance{Namespace: g.namespace, Name: g.name})
			for range resumeTries {
				acknowledged, err := resume(ctx, states, args[0])
				if errors.Is(err, store.ErrStale) {
					continue
				}
				if err != nil {
					return err
				}
				return printAnswer(g, show.Resumed{Policy: args[0], Acknowledged: acknowledged}, show.WriteResumed)
			}
			return hint(fmt.Errorf("policy %s: the ledger keeps changing", args[0]), "try again")
		},
	}
}

func resume(ctx context.Context, states reconcile.Store, policy string) (acknowledged int, err error) {
	state, err := states.Load(ctx)
	if err != nil {
		return 0, err
	}
	known := knownPolicies(state)
	if !slices.Contains(known, policy) {
		err := fmt.Errorf("policy %s: this instance knows no such policy", policy)
		if len(known) == 0 {
			return 0, hint(err, "it knows none: is it another --namespace or --name?")
		}
		return 0, hint(err, "it knows %s", strings.Join(known, ", "))
	}
	for _, f := range state.Ledger.Failures {
		if f.Policy == policy && !f.Acknowledged {
			acknowledged++
		}
	}
	state.Ledger = state.Ledger.Resume(policy)
	return acknowledged, states.Save(ctx, state)
}

// knownPolicies are those that govern a DaemonSet or have a failure on record,
// sorted.
func knownPolicies(state reconcile.State) []string {
	var known []string
	for _, g := range state.Ledger.Governed {
		if g.Policy != "" {
			known = append(known, g.Policy)
		}
	}
	for _, f := range state.Ledger.Failures {
		known = append(known, f.Policy)
	}
	slices.Sort(known)
	return slices.Compact(known)
}
