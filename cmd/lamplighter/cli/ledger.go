// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lamplighter.dev/inventory"
	"lamplighter.dev/inventory/store"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
	"lamplighter.dev/reconcile/rollout"
)

// ledgerTries bounds how often a command competes with the agent for the ledger.
const ledgerTries = 10

// desk is where people change what an instance remembers. The agent hears of
// it at once.
type desk struct {
	client kubernetes.Interface
	states reconcile.Store
	clock  *agent.Clock
}

func openDesk(ctx context.Context, g *globals) (*desk, error) {
	config, err := g.config()
	if err != nil {
		return nil, err
	}
	clock := agent.NewClock(now)
	client, err := kubernetes.NewForConfig(clock.Through(config))
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	if err := reachable(ctx, client, config.Host); err != nil {
		return nil, err
	}
	states := agent.NewStore(client, inventory.Instance{Namespace: g.namespace, Name: g.name})
	return &desk{client: client, states: states, clock: clock}, nil
}

// change changes what the ledger says of a policy, as often as somebody else
// writes in between. It returns the state before.
func (d *desk) change(ctx context.Context, policy string, edit func(rollout.Ledger) (rollout.Ledger, error)) (reconcile.State, error) {
	for range ledgerTries {
		before, err := d.states.Load(ctx)
		if err != nil {
			return before, err
		}
		if err := checkPolicy(before, policy); err != nil {
			return before, err
		}
		after := before
		if after.Ledger, err = edit(before.Ledger); err != nil {
			return before, err
		}
		if err = d.states.Save(ctx, after); !errors.Is(err, store.ErrStale) {
			return before, err
		}
	}
	return reconcile.State{}, hint(fmt.Errorf("policy %s: the ledger keeps changing", policy), "try again")
}

// whoAmI is the user's name as the API server knows it; "" when it does not say.
func (d *desk) whoAmI(ctx context.Context) string {
	review, err := d.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

func checkPolicy(state reconcile.State, policy string) error {
	known := knownPolicies(state)
	if slices.Contains(known, policy) {
		return nil
	}
	err := fmt.Errorf("policy %s: this instance knows no such policy", policy)
	if len(known) == 0 {
		return hint(err, "it knows none: is it another --namespace or --name?")
	}
	return hint(err, "it knows %s", strings.Join(known, ", "))
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

// completePolicy completes the name of a policy from the ledger.
func completePolicy(g *globals) cobra.CompletionFunc {
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
		return knownPolicies(state), cobra.ShellCompDirectiveNoFileComp
	}
}

// longestReason is how much of a reason fits into a line of status.
const longestReason = 300

// checkReason wants a word of explanation, in one line.
func checkReason(cmd *cobra.Command, reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return usage(cmd, "--reason is missing: say why, for those who look at the status")
	case strings.ContainsAny(reason, "\n\r"):
		return usage(cmd, "--reason: write one line")
	case len(reason) > longestReason:
		return usage(cmd, "--reason: %d bytes, %d at most", len(reason), longestReason)
	}
	return nil
}
