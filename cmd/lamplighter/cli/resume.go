// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

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
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.validate("text"); err != nil {
				return err
			}
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
				_, err = fmt.Fprintf(g.streams.Out, "policy %s: %d failures acknowledged\n", args[0], acknowledged)
				return err
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
	known := false
	for _, g := range state.Ledger.Governed {
		known = known || g.Policy == policy
	}
	for _, f := range state.Ledger.Failures {
		if f.Policy == policy && !f.Acknowledged {
			acknowledged++
		}
		known = known || f.Policy == policy
	}
	if !known {
		return 0, hint(fmt.Errorf("policy %s: this instance knows no such policy", policy), "lamplighter status -o json lists them")
	}
	state.Ledger = state.Ledger.Resume(policy)
	return acknowledged, states.Save(ctx, state)
}
